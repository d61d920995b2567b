"""Operator → server: what the server refuses beside split prompts is refused before a pod takes its GPUs."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from spec_changes import BASE, FACTS, INVENTORY, merged
from windlass.errors import UsageError
from windlass.launch import sampling, sequence_parallel
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan import split
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Refusal
from windlass_sizing.model.facts import ModelFacts

NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(2)))
ENGINES_OWN = [
    ["--worker-cls", "my.Worker"], ["--enable-expert-par"], ["--attention-config.backend", "FLASHINFER"],
    ["--kv_transfer", "{}"],
]  # fmt: skip
TWO = ["--sequence-parallel-size", "2"]
ADAPTER = replace(FACTS, adapters=1, lora_slots=1, lora_rank=8)
REFUSED: dict[str, list[tuple[ModelFacts, dict[str, object]]]] = {
    "_model": [(replace(FACTS, latent_kv_dim=576), {}), (replace(FACTS, num_experts=8), {})],
    "_no_text": [
        (FACTS, {"args": ["--runner", "pooling"]}),
        (replace(FACTS, architecture="Qwen2ForSequenceClassification"), {}),
    ],
    "_drafts": [(FACTS, {"engine": {"lookahead": {"enabled": True}}}), (FACTS, {"args": ["--use-lookahead"]})],
    "_adapters": [(ADAPTER, {}), (FACTS, {"args": ["--enable-lora"]})],
    "_offload": [
        (FACTS, {"engine": {"prefixOffload": {"enabled": True, "memory": "4Gi"}}}),
        (FACTS, {"args": ["--enable-prefix-cache-offload", "--prefix-offload-mib", "64"]}),
    ],
    "_workers": [(FACTS, {"engine": {"workers": 2}}), (FACTS, {"args": ["--worker-num", "2"]})],
    "_group": [(FACTS, {"deployment": {"nodes": 2}}), (FACTS, {"deployment": {"mode": "Distributed"}})],
    "_engines_own": [(FACTS, {"args": words}) for words in ENGINES_OWN],
}


@pytest.mark.parametrize("rule", [rule.__name__ for rule in sequence_parallel.CONTRADICTIONS])
def test_each_row_of_the_server_is_refused_by_the_plan(rule: str) -> None:
    """A size below 1 is the schema's; a new row of the server fails here until the plan has it too."""
    if rule == "_count":
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            LLMServiceSpec.model_validate(merged(BASE, {"engine": {"sequenceParallelSize": 0}}))
        return
    for facts, parts in REFUSED[rule]:
        args = parts.get("args", [])
        assert isinstance(args, list)
        spec = LLMServiceSpec.model_validate(merged(BASE, {**parts, "args": [*TWO, *args]}))
        found = decide(spec, facts, INVENTORY)
        assert isinstance(found, Refusal), (rule, parts)
        assert found.reason == "BadParallelism"


@pytest.mark.parametrize("words", ENGINES_OWN)
def test_the_server_refuses_it_however_it_is_written(words: list[str]) -> None:
    """Shortened, or by a key of its own."""
    line = ("/data/model", "--sequence-parallel-size", "2", *words)
    with pytest.raises(UsageError, match="exclude each other"):
        resolve(line, {}, ModelFiles("/data/model", model_type="qwen2", max_model_len=4096), NODE)


def test_both_sides_know_the_same_flags_of_the_engine() -> None:
    """The plan's list is the server's, and so are the names that do not generate."""
    assert split.ENGINES_OWN == sequence_parallel.ENGINES_OWN
    for name in ("NO_CONVERSION", "POOLING_SUFFIXES", "GENERATE_SUFFIXES"):
        assert getattr(split, name) == getattr(sampling, name)
