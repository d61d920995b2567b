"""Adapters and draft models in the plan: counted as the flags have them, refused where the engine has none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_api.crd.engine_rules import ENGINE_RULES
from windlass_api.plan.offload import LOOKAHEAD_TABLE_GIB
from windlass_sizing.model.drafter import Stored, read
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.formula import Serving, adapters_gib

from .test_decide import QWEN_7B, planned, refused

ROOM = {"lora_rank": 64, "lora_whole": 1_000_000, "lora_split": 2_000_000}
TWO = replace(QWEN_7B, adapters=2, lora_slots=2, **ROOM)
OWN = replace(QWEN_7B, adapters=1, lora_slots=1, is_adapter=True, base_path="qwen", **ROOM)
DRAFT = from_config(
    {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": QWEN_7B.vocab_size,
        "max_position_embeddings": 32768,
    }
)  # fmt: skip
DRAFTED = replace(QWEN_7B, draft=DRAFT)
HEAD = {"hidden_size": QWEN_7B.hidden_size, "vocab_size": QWEN_7B.vocab_size}
EAGLE_CONFIG = {
    **HEAD, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "intermediate_size": 18944,
    "num_hidden_layers": 1, "num_attention_heads": 28, "num_key_value_heads": 4,
}  # fmt: skip
EAGLE3 = read({**EAGLE_CONFIG, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 32000}, Stored())
UNKNOWN = read(EAGLE_CONFIG, Stored(None))
MEDUSA = read({**HEAD, "model_type": "medusa", "num_heads": 3}, Stored())


def test_the_places_are_part_of_what_a_card_must_have():
    """2 places of rank 64, and a line that says so."""
    plain, plan = planned(facts=QWEN_7B), planned(facts=TWO)
    room = adapters_gib(TWO, Serving(plan.max_model_len))
    assert plan.per_gpu_gib - plain.per_gpu_gib == pytest.approx(room / 0.9)
    assert f"of that {room:.3f} GiB a GPU for 2 LoRA adapters: 2 places of rank 64" in plan.because


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--max-loras", "8"], "2 LoRA adapters: 8 places of rank 64"),
        (["--max-lora-rank=256"], "2 LoRA adapters: 2 places of rank 256"),
    ],
)
def test_the_users_flags_give_other_room(args, words):
    """The last word is the command line's."""
    assert any(words in line for line in planned(facts=TWO, args=args).because)


def test_adapters_that_are_switched_off_take_no_room():
    """By the flag that the server has for it."""
    plan = planned(facts=TWO, args=["--no-enable-lora"])
    assert plan.per_gpu_gib == planned(facts=QWEN_7B).per_gpu_gib


def test_a_rank_that_holds_no_adapter_takes_no_gpu():
    """As the server would say it."""
    refusal = refused(facts=TWO, args=["--max-lora-rank", "16"])
    assert refusal.reason == "AdapterUnusable"
    assert refusal.message == "--max-lora-rank 16 is less than the rank 64 that the adapters need"


def test_the_base_goes_with_the_plan():
    """On cards and on the CPU; a plain model's plan has none."""
    assert (planned(facts=OWN).base, planned(facts=OWN, resources={"gpus": 0}).base) == ("qwen", "qwen")
    assert planned(facts=QWEN_7B).base == ""


def test_deepspeed_serves_no_adapter():
    """A directory that is one is refused; those in folders of a model are left alone."""
    deepspeed = {"image": {"family": "deepspeed"}}
    assert refused(facts=OWN, **deepspeed).reason == "AdapterUnusable"
    assert planned(facts=TWO, **deepspeed).per_gpu_gib == planned(facts=QWEN_7B, **deepspeed).per_gpu_gib


def test_a_draft_model_is_counted_and_reported():
    """Its weights a card, its cache in the cache's figure."""
    plain, plan = planned(facts=QWEN_7B), planned(facts=DRAFTED)
    assert plan.per_gpu_gib > plain.per_gpu_gib + 0.9
    assert plan.kv_gib > plain.kv_gib
    assert any("GiB a GPU for the draft model's weights (0.63 B parameters)" in line for line in plan.because)


SLOW = "warning: the draft model never rests, and its steps run without CUDA graphs: "


@pytest.mark.parametrize(
    ("engine", "why"),
    [
        ({}, None),
        ({"tensorParallelSize": 2}, "the engine has 2 GPUs"),
        ({"workers": 2}, "there are 2 engines"),
        ({"lookahead": {"enabled": True}}, None),
    ],
)
def test_a_draft_model_that_the_engine_runs_is_a_warning(engine: dict, why: str | None):
    """As the server's note says it; a card by itself captures the steps."""
    gpus = {"resources": {"gpus": 2}} if why else {}
    plan = planned(facts=DRAFTED, engine={"speculation": {"source": {"pvc": {"claimName": "d"}}}, **engine}, **gpus)
    found = [line for line in plan.because if line.startswith(SLOW)]
    assert found == ([f"{SLOW}{why}; it may make answers slower"] if why else [])


@pytest.mark.parametrize(
    ("draft", "drafting", "message", "advice"),
    [
        (
            replace(DRAFT, vocab_size=32000), {},
            f"the draft model has a vocabulary of 32000 tokens, and the served one of {QWEN_7B.vocab_size}",
            "take a draft model of the same family",
        ),
        (
            replace(DRAFT, params=80 * 10**9), {}, "80.00 B parameters, and the served one 7.62 B",
            "smaller than the served one",
        ),
        (DRAFT, {"method": "eagle"}, "a complete model, and the method is eagle", "set the method to draft_model"),
        (EAGLE3, {}, "holds an Eagle-3 head, and the method is draft_model", "set the method to eagle3"),
        (
            replace(EAGLE3, reads_hidden=5120), {"method": "eagle3"},
            f"states of 5120 values, and the served model's have {QWEN_7B.hidden_size}", "trained for the served",
        ),
        (
            MEDUSA, {"method": "medusa", "tokens": 5}, "5 tokens are to be drafted, and the draft directory has 3",
            "draft at most 3",
        ),
        (
            read({**EAGLE_CONFIG, "architectures": ["Qwen2ForCausalLM"]}, Stored(None)), {"method": "eagle"},
            "no Eagle head of architecture Qwen2ForCausalLM", "take a head of one of EagleLlamaForCausalLM",
        ),
    ],
)  # fmt: skip
def test_what_cannot_draft_takes_no_gpu(draft, drafting, message, advice):
    """Refused in the plan, with both sides' figures."""
    speculation = {"source": {"pvc": {"claimName": "d"}}, **drafting}
    refusal = refused(facts=replace(QWEN_7B, draft=draft), engine={"speculation": speculation})
    assert refusal.reason == "DraftUnusable"
    assert message in refusal.message
    assert refusal.message.startswith("spec.engine.speculation: ")
    assert advice in refusal.remedy


def test_a_draft_as_long_as_the_context_is_refused_by_the_plan():
    """The API server takes it, as it always did: a stored service must get its status on Kubernetes 1.29 too."""
    speculation = {"source": {"pvc": {"claimName": "d"}}, "tokens": 64}
    refusal = refused(facts=DRAFTED, engine={"speculation": speculation, "maxModelLen": 64})
    assert refusal.reason == "DraftUnusable"
    assert "64 tokens are to be drafted, and spec.engine.maxModelLen is 64" in refusal.message
    assert planned(facts=DRAFTED, engine={"speculation": speculation, "maxModelLen": 65}).max_model_len == 65
    assert not any("speculation.tokens" in rule.rule for rule in ENGINE_RULES)


def test_a_head_of_unknown_names_is_planned():
    """The method that is said counts, where the files do not tell."""
    speculation = {"method": "eagle", "source": {"pvc": {"claimName": "d"}}}
    assert planned(facts=replace(QWEN_7B, draft=UNKNOWN), engine={"speculation": speculation}).gpus == 1


@pytest.mark.parametrize(
    ("head", "method", "words"),
    [
        (EAGLE3, "eagle3", "GiB a GPU for the Eagle-3 head's weights"),
        (MEDUSA, "medusa", "GiB a GPU for the Medusa heads' weights"),
    ],
)
def test_a_head_is_counted_and_reported(head, method, words):
    """Its weights a card; an Eagle head's one layer in the cache's figure."""
    speculation = {"method": method, "tokens": 3, "source": {"pvc": {"claimName": "d"}}}
    plain, plan = (
        planned(facts=QWEN_7B),
        planned(facts=replace(QWEN_7B, draft=head), engine={"speculation": speculation}),
    )
    assert plan.per_gpu_gib > plain.per_gpu_gib + 0.5
    assert (plan.kv_gib > plain.kv_gib) == (method == "eagle3")
    assert any(words in line for line in plan.because)


def test_the_cpu_holds_them_in_its_memory():
    """As a part with a name."""
    plan = planned(facts=replace(TWO, draft=DRAFT), resources={"gpus": 0})
    assert any("adapters and draft model" in line for line in plan.because)
    assert any(line.startswith("0.") and "for 2 LoRA adapters" in line for line in plan.because)


def test_the_lookahead_cache_and_a_draft_model_are_both_counted():
    """The draft model on the card, as without the cache; the cache's table in the host's memory.

    A draft model alone has the indexes of running requests.
    """
    speculation = {"source": {"pvc": {"claimName": "d"}}}
    alone = planned(facts=DRAFTED, engine={"speculation": speculation})
    plan = planned(facts=DRAFTED, engine={"speculation": speculation, "lookahead": {"enabled": True}})
    assert (plan.per_gpu_gib, plan.kv_gib) == (alone.per_gpu_gib, alone.kv_gib)
    indexes_gib = dict(alone.host_parts)["lookahead"]
    assert dict(plan.host_parts)["lookahead"] == pytest.approx(indexes_gib + LOOKAHEAD_TABLE_GIB)
    assert 0 < indexes_gib < 0.2
    several = planned(facts=DRAFTED, engine={"speculation": speculation}, resources={"gpus": 2})
    assert "lookahead" not in dict(several.host_parts)


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"engine": {"tensorParallelSize": 2}, "resources": {"gpus": 2}}, "2 GPUs share this model"),
        ({"resources": {"gpus": 0}}, "this service runs on CPUs"),
    ],
    ids=["two cards", "CPUs"],
)
def test_drafts_beside_lookahead_take_one_gpu(more, where):
    """Refused in the plan, and only together."""
    speculation = {"source": {"pvc": {"claimName": "d"}}}
    engine = {**more.get("engine", {}), "speculation": speculation}
    assert planned(facts=DRAFTED, **{**more, "engine": engine})
    refusal = refused(facts=DRAFTED, **{**more, "engine": {**engine, "lookahead": {"enabled": True}}})
    assert refusal.reason == "DraftUnusable"
    assert refusal.message == f"spec.engine.speculation drafts beside lookahead on one GPU, and {where}"
    assert refusal.remedy == "switch lookahead off, or leave spec.engine.speculation out"
