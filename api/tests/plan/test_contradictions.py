"""Words that the server refuses at its start are refused before a GPU is taken, each with what to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_api.plan.contradictions import contradiction

from .test_beside import DRAFTED, MEDUSA, QWEN_7B, TWO
from .test_decide import L20, NodeGpus, a_spec, planned, refused

SOURCE = {"source": {"pvc": {"claimName": "d"}}}
DRAFTS, ON_HOST = {"speculation": SOURCE}, {"speculation": {**SOURCE, "runsOn": "cpu"}}
HEADS = {"speculation": {**SOURCE, "method": "medusa", "tokens": 3}}
LOOKAHEAD, PREFIXES = {"lookahead": {"enabled": True}}, {"prefixOffload": {"enabled": True, "memory": "4Gi"}}
ADAPTERS = {
    "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}, "adapters": [{"name": "sql", "path": "lora/sql"}]}
}
HEADED = replace(QWEN_7B, draft=MEDUSA)
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
}  # fmt: skip


@pytest.mark.parametrize(("facts", "spec", "message", "remedy"), CASES.values(), ids=CASES)
def test_no_gpu_is_taken(facts, spec, message, remedy):
    refusal = refused(facts=facts, **spec)
    assert refusal.reason in {"DraftUnusable", "PrefixOffloadUnusable", "AdapterUnusable"}
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
}  # fmt: skip


@pytest.mark.parametrize(("facts", "spec"), ALLOWED.values(), ids=ALLOWED)
def test_what_the_server_takes_is_planned(facts, spec):
    assert planned(facts=facts, **spec).gpus == 1


def test_a_command_of_the_users_own_is_not_judged():
    """It gets none of the planned flags, which are one side of each contradiction."""
    spec = {"engine": LOOKAHEAD, "command": ["vllm", "serve", "--enable-chunked"]}
    assert contradiction(a_spec(**spec)) is None


def test_a_card_beside_which_the_draft_runs_is_taken():
    """Two of the cheaper card hold the model, and lookahead drafts beside one GPU alone."""
    large, roomy = replace(DRAFTED, params=27 * 10**9, hidden_size=6144), NodeGpus("h", "NVIDIA-H200", 140.0, 8, 8)
    engine = {**DRAFTS, **LOOKAHEAD}
    assert planned(large, (L20, roomy), engine=DRAFTS).gpu_type == "L20"
    plan = planned(large, (L20, roomy), engine=engine)
    assert (plan.gpu_type, plan.gpus) == ("H200", 1)
    assert not any("L20" in line for line in plan.alternatives if not line.startswith("quick table"))
    assert refused(large, engine=engine).reason == "DraftUnusable"
