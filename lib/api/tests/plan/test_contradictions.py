"""Words that the server refuses at its start are refused before a GPU is taken, each with what to do."""

from __future__ import annotations

from dataclasses import replace

from windlass_api.plan.contradictions import contradiction
from windlass_api.plan.start import start_of
from windlass_testbed.cases import every_case

from .test_beside import DRAFTED, MEDUSA, OWN, QWEN_7B, TWO
from .test_decide import L20, NodeGpus, a_spec, planned, refused

SOURCE = {"source": {"pvc": {"claimName": "d"}}}
DRAFTS, ON_HOST = {"speculation": SOURCE}, {"speculation": {**SOURCE, "runsOn": "cpu"}}
HEADS = {"speculation": {**SOURCE, "method": "medusa", "tokens": 3}}
LOOKAHEAD, PREFIXES = {"lookahead": {"enabled": True}}, {"prefixOffload": {"enabled": True, "memory": "4Gi"}}
ADAPTERS = {
    "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}, "adapters": [{"name": "sql", "path": "lora/sql"}]}
}
HEADED = replace(QWEN_7B, draft=MEDUSA)
NGRAM, COUNT = '{"method": "ngram", "num_speculative_tokens": 4}', "--num-speculative-tokens"
CHUNKED, STEPS = "--enable-chunked-prefill", "--num-scheduler-steps"


def variable(name: str, value: str) -> dict[str, object]:
    return {"env": [{"name": name, "value": value}]}


def flags(*words: str) -> dict[str, object]:
    return {"args": list(words)}


CASES = {
    "tokens": (DRAFTED, {"engine": DRAFTS, **flags("--num_speculative_tokens=8")}, "drafts 4 tokens", "leave --num"),
    "old flag": (DRAFTED, {"engine": DRAFTS, **flags("--speculative-model", "/d")}, "both name what", "leave one of"),
    "heads, variable": (HEADED, {"engine": HEADS, **variable("USE_LOOKAHEAD", "1")}, "method medusa", "eagle3, or sw"),
    "heads, flag": (HEADED, {"engine": HEADS, **flags("--use-lookahead")}, "not go with lookahead", "lookahead off"),
    "chunks": (QWEN_7B, {"engine": LOOKAHEAD, **flags(f"{CHUNKED}=true")}, f"lookahead and {CHUNKED}", "lookahead off"),
    "chunks, short": (QWEN_7B, {"engine": LOOKAHEAD, **flags("--enable-chunked")}, "exclude each other", "leave --ena"),
    "chunks, host": (DRAFTED, {"engine": ON_HOST, **flags(CHUNKED, "on")}, "host's cores", "run on the GPU"),
    "chunks, CPUs": (
        QWEN_7B, {"engine": LOOKAHEAD, "resources": {"gpus": 0}, **flags("--enable_chunked_prefill")},
        "exclude each other", "lookahead off",
    ),
    "steps": (QWEN_7B, {"engine": LOOKAHEAD, **flags(STEPS, "8")}, f"lookahead and {STEPS} 8", f"leave {STEPS} out"),
    "steps, host": (DRAFTED, {"engine": ON_HOST, **flags(f"{STEPS}=2")}, f"{STEPS} 2", "run on the GPU"),
    "steps of the field": (
        QWEN_7B, {"engine": {"schedulerSteps": 2}, **variable("USE_LOOKAHEAD", "1")},
        "spec.engine.schedulerSteps 2", "leave spec.engine.schedulerSteps out, or switch lookahead off",
    ),
    "no prefixes": (QWEN_7B, {"engine": PREFIXES, **flags("--no-enable-prefix-caching")}, "is false", "offload off"),
    "no prefixes of the field": (
        QWEN_7B,
        {"engine": {"prefixCaching": False}, **flags("--enable-prefix-cache-offload", "--prefix-offload-mib", "1024")},
        "spec.engine.prefixCaching is false", "leave that out",
    ),
    "no prefixes, variable": (
        QWEN_7B, {"engine": PREFIXES, **variable("ENABLE_PREFIX_CACHING", "false")}, "is false", "leave that out",
    ),
    "other blocks": (
        QWEN_7B, {"engine": PREFIXES, **flags("--kv-transfer-config.kv_connector", "X")},
        "--kv-transfer-config both choose", "leave --kv-transfer-config out",
    ),
    "adapters": (replace(TWO, adapters=1), {**ADAPTERS, **flags("--no-enable-lora")}, "names sql", "leave one of the"),
    "adapters, variable": (TWO, {**ADAPTERS, **variable("ENABLE_LORA", "0")}, "--enable-lora is false", "leave one"),
    "an adapter as the model": (OWN, variable("ENABLE_LORA", "false"), "is a LoRA adapter, and", "merge the adapter"),
    "an adapter as the model, flag": (OWN, flags("--no-enable-lora"), "--enable-lora (ENABLE_LORA) is", "leave that"),
    "an adapter as the model, not merged": (
        OWN, {**variable("MERGE_LORA", "false"), **flags("--enable-lora=false")}, "is false", "leave that out, merge",
    ),
    "lookup": (
        QWEN_7B, {"engine": LOOKAHEAD, **flags("--speculative-config", NGRAM)},
        "lookahead and --speculative-config (method ngram) exclude", "leave --speculative-config out, or switch",
    ),
    "lookup, keys": (
        QWEN_7B, flags("--use-lookahead", "-sc.method=ngram"), "lookahead and -sc (method ngram)", "leave -sc out",
    ),
    "lookup, short": (
        QWEN_7B, {**variable("USE_LOOKAHEAD", "1"), **flags("--spec-meth", "ngram")}, "--spec-method (method ngram)",
        "leave --spec-method out",
    ),
    "lookup of older engines": (
        QWEN_7B, {"engine": LOOKAHEAD, **flags("--speculative_model", "[ngram]")}, "--speculative-model (method ngram)",
        "leave --speculative-model out",
    ),
    "lookup in place of a draft model": (
        DRAFTED, {"engine": {**DRAFTS, **LOOKAHEAD}, **flags("--spec-method=ngram")}, "--spec-method", "switch lookah",
    ),
    "lookup, host": (DRAFTED, {"engine": ON_HOST, **flags("--spec-method=ngram")}, "host's cores", "run on the GPU"),
    "a head, host": (DRAFTED, {"engine": ON_HOST, **flags("--spec-method=eagle")}, "(method eagle)", "run on the GPU"),
    "tokens of nothing": (QWEN_7B, {"engine": LOOKAHEAD, **flags("--spec-tokens", "4")}, "--spec-tokens", "leave --sp"),
    "a draft model on CPUs": (
        QWEN_7B, {"engine": LOOKAHEAD, "resources": {"gpus": 0}, **flags("--spec-model", "/d")},
        "lookahead and --spec-model exclude each other on CPUs", "switch lookahead off",
    ),
    "a short context": (
        QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 6}},
        "6 tokens are to be drafted at a time, and the context (maxModelLen) has 6",
        "set spec.engine.lookahead.speculativeTokens to a number from 1 to 5, raise spec.engine.maxModelLen, or switch",
    ),
    "a short context, flag": (
        QWEN_7B, {"engine": LOOKAHEAD, **flags("--max_model_len=4")}, "has 4", "a number from 1 to 3, raise",
    ),
    "a short context, CPUs": (
        QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 2}, "resources": {"gpus": 0}}, "has 2", "from 1 to 1, raise",
    ),
    "a context of one": (
        QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 1}}, "has 1", "raise spec.engine.maxModelLen, or switch",
    ),
    "a short context of the model": (
        replace(QWEN_7B, max_model_len=64), {"engine": LOOKAHEAD, **flags(COUNT, "64")}, "64 tokens", f"set {COUNT} to",
    ),
    "tokens of a variable": (
        QWEN_7B, {"engine": {"maxModelLen": 8}, "env": [
            {"name": "USE_LOOKAHEAD", "value": "true"}, {"name": "NUM_SPECULATIVE_TOKENS", "value": "8"},
        ]}, "8 tokens are to be drafted", "set NUM_SPECULATIVE_TOKENS to a number from 1 to 7, raise spec.engine",
    ),
    "tokens of a flag, length of a variable": (
        QWEN_7B, {**flags("--use-lookahead"), **variable("MAX_MODEL_LEN", "6")}, "6 tokens are",
        f"set {COUNT} to a number from 1 to 5, raise MAX_MODEL_LEN,",
    ),
    "length of a flag": (
        QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 4096}, **flags("--max-model-len", "6")}, "has 6",
        "raise --max-model-len, or switch",
    ),
    "no tokens": (QWEN_7B, flags("--use-lookahead", COUNT, "0"), "0 tokens are to be drafted", "from 1 to 128"),
    "too many tokens": (QWEN_7B, {"engine": LOOKAHEAD, **flags(f"{COUNT}=129")}, "129 tokens", "128, or switch"),
    "tokens of a draft model": (
        DRAFTED, {"engine": {**DRAFTS, **LOOKAHEAD}, **flags("--max-model-len", "4")}, "4 tokens are",
        "set spec.engine.speculation.tokens to a number from 1 to 3",
    ),
    "tokens of a draft model, host": (
        DRAFTED, {"engine": ON_HOST, **flags("--max-model-len", "4")}, "4 tokens are", "or let the draft model run on",
    ),
    "more engines": (
        QWEN_7B, flags("-dp", "2"), "size 2 starts 2 engines, and the plan counts GPUs and memory for 1",
        "leave --data-parallel-size out, and set spec.engine.workers",
    ),
    "more engines, joined": (QWEN_7B, flags("--data_parallel_size=4"), "starts 4 engines", "spec.engine.workers"),
    "more engines on CPUs": (QWEN_7B, {"resources": {"gpus": 0}, **flags("-dp=2")}, "starts 2 engines", "workers"),
    "more engines by a variable": (
        QWEN_7B, {**variable("WORKER_NUM", "2"), **flags("-dp", "4")}, "starts 4 engines", "set WORKER_NUM, which",
    ),
    "more engines by a flag": (
        QWEN_7B, flags("--worker-num", "2", "-dp", "4"), "starts 4 engines", "and say --worker-num 4, which",
    ),
    "more engines over nodes": (
        QWEN_7B, {"deployment": {"mode": "Distributed", "nodes": 2}, **flags("-dp", "2")}, "starts 2", "raise spec.re",
    ),
    "fewer engines": (QWEN_7B, {"engine": {"workers": 2}, **flags("-dp", "2", "-dp", "1")}, "memory for 2", "workers"),
    "prompts over GPUs": (
        QWEN_7B, flags("-pcp", "2"), "--prefill-context-parallel-size 2 takes 2 times the GPUs that the plan counts",
        "set spec.engine.sequenceParallelSize in its place",
    ),
    "prompts over GPUs, short": (QWEN_7B, flags("--prefill-context=3"), "takes 3 times", "leave --prefill-context"),
}  # fmt: skip


@every_case("facts, spec, message, remedy", CASES.values(), ids=CASES)
def test_no_gpu_is_taken(facts, spec, message, remedy):
    refusal = refused(facts=facts, **spec)
    assert refusal.reason in {"DraftUnusable", "PrefixOffloadUnusable", "AdapterUnusable", "BadParallelism"}
    assert message in refusal.message
    assert remedy in refusal.remedy


ALLOWED = {
    "the same tokens": (DRAFTED, {"engine": DRAFTS, **flags("--num-speculative-tokens", "4")}),
    "tokens of a variable": (DRAFTED, {"engine": DRAFTS, **variable("NUM_SPECULATIVE_TOKENS", "8")}),
    "tokens of both flags": (
        DRAFTED, {"engine": DRAFTS, **flags("--spec-tokens", "8", "--num-speculative-tokens", "8")}
    ),
    "chunks switched off": (QWEN_7B, {"engine": LOOKAHEAD, **flags(CHUNKED, "--no-enable-chunked-prefill")}),
    "chunks beside a draft model": (DRAFTED, {"engine": DRAFTS, **flags(CHUNKED)}),
    "one step": (QWEN_7B, {"engine": LOOKAHEAD, **flags(STEPS, "1")}),
    "steps alone": (QWEN_7B, flags(STEPS, "8")),
    "no prefixes alone": (QWEN_7B, flags("--no-enable-prefix-caching")),
    "prefixes, switched on again": (
        QWEN_7B, {"engine": PREFIXES, **flags("--enable-prefix-caching"), **variable("ENABLE_PREFIX_CACHING", "0")}
    ),
    "offload switched off": (
        QWEN_7B, {"engine": PREFIXES, **flags("--no-enable-prefix-cache-offload", "--no-enable-prefix-caching")}
    ),
    "a merged adapter": (QWEN_7B, {**ADAPTERS, **flags("--no-enable-lora", "--merge-lora", "sql")}),
    "found adapters": (TWO, flags("--no-enable-lora")),
    "an adapter as the model, merged": (OWN, flags("--no-enable-lora", "--merge-lora", "true")),
    "an adapter as the model, merged by the field": (
        OWN, {"model": {**ADAPTERS["model"], "adapters": [], "merge": True}, **variable("ENABLE_LORA", "false")},
    ),
    "lookup alone": (QWEN_7B, flags("--speculative-config", NGRAM)),
    "lookup, lookahead off": (QWEN_7B, {"engine": LOOKAHEAD, **flags("-sc", NGRAM, "--no-use-lookahead")}),
    "a draft model of the flags": (
        QWEN_7B, {"engine": LOOKAHEAD, **flags("--spec-method", "eagle", "--spec-model", "/data/model/eagle")}
    ),
    "a directory of the flags": (QWEN_7B, {"engine": LOOKAHEAD, **flags("--spec-model", "/data/model/draft")}),
    "no configuration": (QWEN_7B, {"engine": LOOKAHEAD, **flags("--speculative-config", "ngram")}),
    "room for a draft": (QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 7}}),
    "room for a shorter draft": (
        QWEN_7B, {"engine": {"lookahead": {"enabled": True, "speculativeTokens": 1}, "maxModelLen": 2}}
    ),
    "the flag's tokens": (QWEN_7B, {
        "engine": {"lookahead": {"enabled": True, "speculativeTokens": 4}, "maxModelLen": 6},
        **variable("NUM_SPECULATIVE_TOKENS", "8"),
    }),
    "a context that the engine chooses": (
        QWEN_7B, {"engine": {**LOOKAHEAD, "maxModelLen": 6}, **flags("--max-model-len", "auto")}
    ),
    "a short context without drafts": (QWEN_7B, {"engine": {"maxModelLen": 2}}),
    "one engine": (QWEN_7B, flags("-dp", "1", "-pcp", "1")),
    "engines in other pods": (QWEN_7B, flags("-dp", "2", "-dpn", "0", "-dpa", "chat-0")),
    "engines that the engine refuses": (QWEN_7B, flags("-dp", "two")),
}  # fmt: skip


@every_case("facts, spec", ALLOWED.values(), ids=ALLOWED)
def test_what_the_server_takes_is_planned(facts, spec):
    assert planned(facts=facts, **spec).gpus == 1


def test_a_command_of_the_users_own_is_not_judged():
    """It gets none of the planned flags, which are one side of each contradiction."""
    spec = a_spec(engine=LOOKAHEAD, command=["vllm", "serve", "--enable-chunked"])
    assert contradiction(start_of(spec)) is None


def test_a_card_beside_which_the_draft_runs_is_taken():
    """Two of the cheaper card hold the model, and lookahead drafts beside one GPU alone."""
    large, roomy = replace(DRAFTED, params=27 * 10**9, hidden_size=6144), NodeGpus("h", "NVIDIA-H200", 140.0, 8, 8)
    engine = {**DRAFTS, **LOOKAHEAD}
    assert planned(large, (L20, roomy), engine=DRAFTS).gpu_type == "L20"
    plan = planned(large, (L20, roomy), engine=engine)
    assert (plan.gpu_type, plan.gpus) == ("H200", 1)
    assert not any("L20" in line for line in plan.alternatives)
    assert refused(large, engine=engine).reason == "DraftUnusable"


def test_as_many_engines_as_planned():
    """Field and flag may agree: the pod has the GPUs of both engines."""
    plan = planned(engine={"workers": 2}, **flags("--data-parallel-size", "2"))
    assert (plan.workers, plan.gpus) == (2, 2)


def test_another_family_has_no_such_rules():
    """Its server judges its own flags."""
    spec = a_spec(image={"family": "deepspeed"}, **flags("-dp", "2"))
    assert contradiction(start_of(spec)) is None


def test_a_model_that_was_not_planned_is_a_warning():
    """The last flag wins, so another directory is served; the planned one in another spelling is no other."""
    warning = "--model /data/other is served, and the plan is of spec.model"
    same = flags("--model", "/data/model/"), variable("MODEL", "/data/other")
    for gpus in (0, 1):
        resources = {"resources": {"gpus": gpus}}
        other = planned(QWEN_7B, **resources, **flags("--model", "/data/other"))
        assert any(warning in line for line in other.because)
        for words in same:
            assert not any("--model" in line for line in planned(QWEN_7B, **resources, **words).because)
