"""Operator → server: what a spec's flags and variables plan is what the server starts, and what it refuses is refused.

Each spec goes through both sides: the plan, then the server's parser with the planned flags and the pod's variables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from windlass.doctor import fits
from windlass.engine.adapters.model import Adapter, Adapters
from windlass.errors import UsageError
from windlass.launch.model import DraftFiles, LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan, Refusal
from windlass_api.plan.quantity import gib
from windlass_sizing.model.drafter import FLAGS, Stored, read
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement.formula import demand
from windlass_testbed.cases import every_case

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 5120, "intermediate_size": 13696,
    "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 40, "vocab_size": 128256,
    "max_position_embeddings": 131072,
}  # fmt: skip
FACTS = from_config(CONFIG)
DRAFT = from_config({**CONFIG, "num_hidden_layers": 4})
HEADS = read({"model_type": "medusa", "hidden_size": 5120, "vocab_size": 128256, "num_heads": 3}, Stored())
INVENTORY = Inventory((NodeGpus("a", "NVIDIA-L20", 44.99, 8, 8),))
SQL = Adapter("sql", "/data/adapters/0", "LORA_MODULES", rank=16)
SOURCE = {"source": {"pvc": {"claimName": "d"}}}
OFFLOADED = ["--enable-prefix-cache-offload", "--prefix-offload-mib", "10240"]
GIB = 2**30


def a_spec(args: tuple[str, ...] = (), env: dict[str, str] | None = None, **parts: Any) -> LLMServiceSpec:
    rows = [{"name": name, "value": value} for name, value in (env or {}).items()]
    model = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
    return LLMServiceSpec.model_validate({"model": model, "args": list(args), "env": rows, **parts})


def started(
    spec: LLMServiceSpec, plan: Plan, facts: ModelFacts = FACTS, adapters: Adapters | None = None
) -> LaunchPlan:
    """What the server of the planned pod makes of its command line and its variables."""
    draft = DraftFiles("/data/draft", "/data/model", facts, facts.draft, has_same_vocabulary=True)
    files = ModelFiles(
        "/data/model", "llama", facts.max_model_len, attention_heads=40, vocab_size=facts.vocab_size,
        draft=draft if facts.draft else None, architecture=facts.architecture, adapters=adapters or Adapters(),
    )  # fmt: skip
    gpus = tuple(Gpu(f"GPU-{number}", "NVIDIA L20") for number in range(plan.gpus))
    memory, shared = (int(gib(text) * GIB) for text in (plan.memory, plan.shm))
    machine = Machine("cuda" if gpus else "cpu", gpus, memory_bytes=memory, shared_bytes=shared)
    environment = {"HOME": "/cache", **{row.name: row.value for row in spec.env}}
    return resolve(server_args(spec, plan), environment, files, machine)


def planned(spec: LLMServiceSpec, facts: ModelFacts = FACTS) -> Plan:
    plan = decide(spec, facts, INVENTORY)
    assert isinstance(plan, Plan), plan
    return plan


SPECS = {
    "length with a unit": a_spec(("--max-model-len", "32K")),
    "length with a small unit": a_spec(("--max-model-len=16k",)),
    "length of a variable": a_spec(env={"MAX_MODEL_LEN": "32K"}),
    "length above the model's": a_spec(("--hf_overrides", "{}"), engine={"maxModelLen": 150_000}),
    "length above the model's, short": a_spec(("--hf-over={}",), engine={"maxModelLen": 150_000}),
    "length above the model's, variable": a_spec(
        env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, engine={"maxModelLen": 150_000}
    ),
    "--tp": a_spec(("--tp", "2")),
    "--pp": a_spec(("--pp", "2")),
    "--q": a_spec(("--q", "fp8")),
    "share of a variable": a_spec(env={"GPU_MEMORY_UTILIZATION": "0"}),
    "workers of a variable": a_spec(env={"WORKER_NUM": "2"}, engine={"workers": 4}),
    "one worker of a variable": a_spec(env={"WORKER_NUM": "1"}, engine={"workers": 4}),
    "workers of a variable alone": a_spec(env={"WORKER_NUM": "2"}),
    "workers of a flag": a_spec(("--worker-num", "2"), engine={"workers": 4}),
    "prefixes of fewer workers": a_spec(("--worker-num", "1", *OFFLOADED), engine={"workers": 4}),
    "prefixes of more workers": a_spec(("--worker-num", "4", *OFFLOADED)),
}


@every_case("spec", SPECS.values(), ids=SPECS)
def test_what_is_planned_starts(spec: LLMServiceSpec) -> None:
    """With the same length, split, engines, method and share, on the planned GPUs and in the planned memory."""
    plan = planned(spec)
    launch = started(spec, plan)
    numbers = ("tensor-parallel-size", "pipeline-parallel-size", "worker-num", "max-model-len")
    assert [launch.value(name) or 1 for name in numbers] == [plan.tp, plan.pp, plan.workers, plan.max_model_len]
    assert (launch.value("quantization"), launch.value("dtype")) == (plan.quantization, plan.dtype)
    assert launch.value("gpu-memory-utilization") == plan.gpu_memory_utilization_percent / 100
    assert plan.tp * plan.pp * plan.workers == plan.gpus


@pytest.mark.parametrize("text", ["auto", "-1"])
def test_a_length_that_the_engine_chooses_reaches_it(text: str) -> None:
    """The plan has room for the length that it would choose itself."""
    spec = a_spec(("--max-model-len", text))
    plan = planned(spec)
    assert (plan.max_model_len, started(spec, plan).value("max-model-len")) == (8192, text)


def test_limits_of_a_variable_hold() -> None:
    spec = a_spec(env={"IGNORE_ENGINE_LIMITS": "false"}, engine={"ignoreEngineLimits": True})
    assert started(spec, planned(spec)).value("ignore-engine-limits") is False


@pytest.mark.parametrize("text", ["0", "inf", "nan", "-0.5", "1.5"])
def test_a_share_that_no_gpu_has_is_the_servers_to_refuse(text: str) -> None:
    spec = a_spec(("--gpu-memory-utilization", text))
    with pytest.raises(UsageError, match="write a number above 0 and at most 1"):
        started(spec, planned(spec))


@pytest.mark.parametrize(
    "engine",
    [
        {"maxModelLen": 16384, "tensorParallelSize": 1, "pipelineParallelSize": 2, "kvCacheDtype": "fp8"},
        {"maxModelLen": 16384, "maxNumSeqs": 8},
    ],
)
def test_the_doctor_counts_as_the_plan(engine: dict[str, object]) -> None:
    """A healthy pod must not be told that it lacks memory."""
    spec = a_spec(engine=engine)
    plan = planned(spec)
    wanted = fits.serving(started(spec, plan), FACTS)
    assert (wanted.tp, wanted.pp) == (plan.tp, plan.pp)
    assert demand(FACTS, wanted).per_gpu_gib == pytest.approx(plan.per_gpu_gib)


DRAFTED, HEADED = replace(FACTS, draft=DRAFT), replace(FACTS, draft=HEADS)
ON_HOST = {"speculation": {**SOURCE, "runsOn": "cpu"}}
LOOKAHEAD, PREFIXES = {"lookahead": {"enabled": True}}, {"prefixOffload": {"enabled": True, "memory": "4Gi"}}
NAMED = {"id": "m", "source": {"pvc": {"claimName": "c"}}, "adapters": [{"name": "sql", "path": "sql"}]}
OWN = replace(FACTS, adapters=1, lora_slots=1, lora_rank=16, is_adapter=True, base_path="base")
SPECULATIVE, COUNT = "--speculative-config", "--num-speculative-tokens"
LOOKUP = {
    "--speculative-config": '{"method": "ngram", "num_speculative_tokens": 4}', "-sc": '{"method": "ngram"}',
    "--spec-method": "ngram", "--spec-model": "ngram", "--spec-tokens": "4",
}  # fmt: skip
CHUNKED, MEDUSA = "--enable-chunked-prefill", {"speculation": {**SOURCE, "method": "medusa", "tokens": 3}}
CASES: dict[str, tuple[ModelFacts, dict[str, Any], tuple[str, ...], dict[str, str]]] = {
    "tokens": (DRAFTED, {"engine": {"speculation": SOURCE}}, ("--num-speculative-tokens", "8"), {}),
    "the same tokens": (DRAFTED, {"engine": {"speculation": SOURCE}}, ("--num-speculative-tokens", "4"), {}),
    "both tokens": (
        DRAFTED, {"engine": {"speculation": SOURCE}}, ("--spec-tokens", "8", "--num-speculative-tokens", "8"), {}
    ),
    "tokens of a variable": (DRAFTED, {"engine": {"speculation": SOURCE}}, (), {"NUM_SPECULATIVE_TOKENS": "8"}),
    "old flag": (DRAFTED, {"engine": {"speculation": SOURCE}}, ("--speculative_model=/d",), {}),
    "heads": (HEADED, {"engine": MEDUSA}, (), {}),
    "heads, lookahead": (HEADED, {"engine": MEDUSA}, ("--use-lookahead",), {}),
    "heads, lookahead by a variable": (HEADED, {"engine": MEDUSA}, (), {"USE_LOOKAHEAD": "true"}),
    "draft model, lookahead": (DRAFTED, {"engine": {"speculation": SOURCE}}, ("--use-lookahead",), {}),
    **{
        f"{who}, {' '.join(words)}": (facts, {"engine": engine}, words, {})
        for who, facts, engine in (("lookahead", FACTS, LOOKAHEAD), ("host", DRAFTED, ON_HOST))
        for words in (
            (f"{CHUNKED}=true",), ("--enable_chunked_prefill",), ("--enable-chunked", "yes"), (CHUNKED, "false"),
            (CHUNKED, "--no-enable-chunked-prefill"), ("--num-scheduler-steps", "8"), ("--num_scheduler_steps=1",),
        )
    },
    "CPUs, chunks": (FACTS, {"engine": LOOKAHEAD, "resources": {"gpus": 0}}, (f"{CHUNKED}=1",), {}),
    "no prefixes": (FACTS, {"engine": PREFIXES}, ("--no-enable-prefix-caching",), {}),
    "no prefixes, variable": (FACTS, {"engine": PREFIXES}, (), {"ENABLE_PREFIX_CACHING": "false"}),
    "prefixes on": (FACTS, {"engine": PREFIXES}, ("--enable-prefix-caching",), {"ENABLE_PREFIX_CACHING": "false"}),
    "prefixes off": (
        FACTS, {"engine": PREFIXES}, ("--no-enable-prefix-cache-offload", "--no-enable-prefix-caching"), {}
    ),
    "no prefixes on CPUs": (FACTS, {"engine": PREFIXES, "resources": {"gpus": 0}}, ("--no-enable-prefix-caching",), {}),
    "other blocks": (FACTS, {"engine": PREFIXES}, ("--kv-offloading-s", "4"), {}),
    "other blocks, key": (FACTS, {"engine": PREFIXES}, ("--kv-transfer-config.kv_connector", "X"), {}),
    "adapters": (FACTS, {"model": NAMED}, (), {}),
    "no adapters": (FACTS, {"model": NAMED}, ("--no-enable-lora",), {}),
    "no adapters, variable": (FACTS, {"model": NAMED}, (), {"ENABLE_LORA": "false"}),
    "adapter as the model": (OWN, {}, (), {}),
    "adapter as the model, variable": (OWN, {}, (), {"ENABLE_LORA": "false"}),
    "adapter as the model, flag": (OWN, {}, ("--no-enable-lora",), {}),
    "adapter as the model, merged": (OWN, {}, ("--merge-lora", "true"), {"ENABLE_LORA": "false"}),
    **{
        f"{who}, {flag}": (facts, {"engine": engine}, (flag, LOOKUP[flag]), {})
        for who, facts, engine in (("lookahead", FACTS, LOOKAHEAD), ("host", DRAFTED, ON_HOST))
        for flag in FLAGS
    },
    "lookup alone": (FACTS, {}, ("--spec-method", "ngram"), {}),
    "lookup, lookahead by a variable": (FACTS, {}, ("--spec-meth=ngram",), {"USE_LOOKAHEAD": "true"}),
    "lookup, lookahead switched off": (FACTS, {"engine": LOOKAHEAD}, ("-sc.method", "ngram", "--no-use-lookahead"), {}),
    "lookup of older engines": (FACTS, {"engine": LOOKAHEAD}, ("--speculative-model", "[ngram]"), {}),
    "lookup in place of a draft model": (
        DRAFTED, {"engine": {**LOOKAHEAD, "speculation": SOURCE}}, ("--speculative_config.method", "ngram"), {}
    ),
    "a draft model without a directory": (FACTS, {"engine": LOOKAHEAD}, ("--spec-method", "draft_model"), {}),
    "a draft model by flags": (
        DRAFTED, {"engine": LOOKAHEAD}, (SPECULATIVE, '{"method": "draft_model", "model": "/data/draft"}'), {}
    ),
    "a draft model by flags on CPUs": (
        DRAFTED, {"engine": LOOKAHEAD, "resources": {"gpus": 0}}, ("--spec-model", "/data/draft"), {}
    ),
    **{
        f"lookahead, {' '.join(words)}": (FACTS, {"engine": LOOKAHEAD}, words, {})
        for words in (
            ("--max-model-len", "6"), ("--max-model-len=7",), ("--max-model-len", "auto"), (COUNT, "0"), (COUNT, "128"),
            (COUNT, "129"), ("--max-model-len", "16", COUNT, "16"), ("--max-model-len", "1", COUNT, "1"),
        )
    },
    "tokens of a variable, lookahead": (
        FACTS, {"engine": LOOKAHEAD}, ("--max-model-len", "8"), {"NUM_SPECULATIVE_TOKENS": "8"}
    ),
    "tokens of the field, lookahead": (
        FACTS, {"engine": {"lookahead": {"enabled": True, "speculativeTokens": 3}}}, ("--max-model-len", "6"),
        {"NUM_SPECULATIVE_TOKENS": "8"},
    ),
    "tokens of a draft model, host": (DRAFTED, {"engine": ON_HOST}, ("--max-model-len", "4"), {}),
    "tokens of a draft model, lookahead": (
        DRAFTED, {"engine": {**LOOKAHEAD, "speculation": SOURCE}}, ("--max-model-len", "5"), {}
    ),
    **{
        " ".join(("workers", str(workers), *words)): (FACTS, {"engine": {"workers": workers}}, words, {})
        for workers in (1, 2)
        for words in (
            ("-dp", "1"), ("-dp", "2"), ("--data_parallel_size=2",), ("-dp=3",), ("-dp", "2", "--data-parallel-size=1"),
            ("-pcp", "1"), ("-pcp", "2"), ("--prefill-context=2",), ("--prefill_context_parallel_size", "3"),
        )
    },
}  # fmt: skip


@every_case("facts, parts, args, env", CASES.values(), ids=CASES)
def test_what_the_server_refuses_takes_no_gpu(
    facts: ModelFacts, parts: dict[str, Any], args: tuple[str, ...], env: dict[str, str]
) -> None:
    """And nothing else: the server gets the planned flags of the spec without its words, then the words."""
    spec, plain = a_spec(args, env, **parts), planned(a_spec(**parts), facts)
    own = Adapters(own=replace(SQL, path="/data/model")) if facts.is_adapter else None
    adapters = Adapters(given=(SQL,)) if "model" in parts else own
    try:
        started(spec, plain, facts, adapters)
        is_refused = False
    except UsageError:
        is_refused = True
    answer = decide(spec, facts, INVENTORY)
    assert isinstance(answer, Refusal) == is_refused


@every_case("length", [1, 2, 6, 7])
@every_case("tokens", [None, 1, 6])
def test_a_context_without_room_for_a_draft_takes_no_gpu(length: int, tokens: int | None) -> None:
    """The field's length is planned, so the server gets it from a plan without lookahead."""
    plain = planned(a_spec(engine={"maxModelLen": length}))
    spec = a_spec(engine={"maxModelLen": length, "lookahead": {"enabled": True, "speculativeTokens": tokens}})
    try:
        started(spec, plain)
        is_refused = False
    except UsageError:
        is_refused = True
    assert isinstance(decide(spec, FACTS, INVENTORY), Refusal) == is_refused == (length <= (tokens or 6))
