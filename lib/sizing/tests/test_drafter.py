"""What a directory drafts with, and which served model it fits: one row a rule."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_sizing.errors import FactsError
from windlass_sizing.files.adapters import Beside
from windlass_sizing.files.directory import Directory
from windlass_sizing.model import drafter
from windlass_sizing.model.drafter import (
    DRAFT_MODEL,
    EAGLE,
    EAGLE3,
    ENGINE_HEADS,
    MEDUSA,
    UNKNOWN,
    Stored,
    method_of,
    read,
    unfit,
)
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement.formula import GIB, Serving, draft_gib, kv_gib
from windlass_sizing.quantization.engine import ENGINE
from windlass_testbed.cases import every_case

from .test_adapters import model, seen, told
from .test_checkpoint import CONFIG, safetensors

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
SERVED = from_config(LLAMA)
ONE_LAYER = {**LLAMA, "num_hidden_layers": 1}
SMALL = {**LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16}
EAGLE3_CONFIG = {**ONE_LAYER, "draft_vocab_size": 32000}
MEDUSA_CONFIG = {
    "model_type": "medusa",
    "hidden_size": 4096,
    "vocab_size": 128256,
    "num_heads": 4,
    "num_hidden_layers": 1,
}
OLD_MEDUSA = {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}
HEAD_NAMES = {"fc.weight", "layers.0.self_attn.q_proj.weight"}


@every_case(
    "config, names, method",
    [
        (SMALL, {"model.layers.0.self_attn.q_proj.weight", "lm_head.weight"}, DRAFT_MODEL),
        (SMALL, (), DRAFT_MODEL),
        (ONE_LAYER, HEAD_NAMES, EAGLE),
        ({**ONE_LAYER, "architectures": ["EagleLlamaForCausalLM"]}, (), EAGLE),
        ({**ONE_LAYER, "model_type": "eagle"}, (), EAGLE),
        (EAGLE3_CONFIG, (), EAGLE3),
        ({**ONE_LAYER, "architectures": ["LlamaForCausalLMEagle3"]}, HEAD_NAMES, EAGLE3),
        ({**ONE_LAYER, "architectures": ["Eagle3Qwen3ForCausalLM"]}, (), EAGLE3),
        (ONE_LAYER, {"fc.weight", "midlayer.mlp.up_proj.weight"}, EAGLE3),
        (ONE_LAYER, {"fc.weight", "d2t"}, EAGLE3),
        ({"speculators_model_type": "eagle3", "transformer_layer_config": ONE_LAYER}, (), EAGLE3),
        ({"speculators_model_type": "peagle", "transformer_layer_config": ONE_LAYER}, (), EAGLE3),
        ({"speculators_model_type": "eagle", "transformer_layer_config": ONE_LAYER}, (), EAGLE),
        ({**ONE_LAYER, "architectures": ["PEagleDraftModel"]}, (), EAGLE3),
        ({**ONE_LAYER, "architectures": ["EagleDeepSeekMTPModel"]}, (), EAGLE),
        (ONE_LAYER, None, UNKNOWN),
        (SMALL, None, UNKNOWN),
        (EAGLE3_CONFIG, None, EAGLE3),
        (OLD_MEDUSA, None, MEDUSA),
        (MEDUSA_CONFIG, (), MEDUSA),
        (OLD_MEDUSA, (), MEDUSA),
        ({"architectures": ["MedusaModel"]}, (), MEDUSA),
    ],
)
def test_the_files_say_the_method(config, names, method):
    """By config.json first, by the tensors' names where that says nothing."""
    assert method_of(config, names) == method


def test_a_complete_model_has_the_facts_that_it_always_had():
    """No key of heads: the plan's digest of a running service stays."""
    facts = read(SMALL, Stored())
    assert facts == from_config(SMALL)
    assert not {"drafts_by", "drafted_most", "reads_hidden", "deepest_layer"} & facts.to_dict().keys()


@every_case(
    "config, names, wanted",
    [
        (EAGLE3_CONFIG, (), (EAGLE3, None, 4096, None)),
        ({**EAGLE3_CONFIG, "target_hidden_size": 5120}, (), (EAGLE3, None, 5120, None)),
        (
            {**EAGLE3_CONFIG, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 9, 40]}},
            (),
            (EAGLE3, None, 4096, 40),
        ),
        ({**EAGLE3_CONFIG, "eagle_aux_hidden_state_layer_ids": [1, 23, 44]}, (), (EAGLE3, None, 4096, 44)),
        (ONE_LAYER, HEAD_NAMES, (EAGLE, None, 4096, None)),
        (MEDUSA_CONFIG, (), (MEDUSA, 4, 4096, None)),
        (OLD_MEDUSA, (), (MEDUSA, 5, 4096, None)),
        (
            MEDUSA_CONFIG,
            {"blocks.0.layers.0.weight", "blocks.2.layers.0.weight", "lm_heads.0.weight"},
            (MEDUSA, 3, 4096, None),
        ),
        (OLD_MEDUSA, {"0.0.linear.weight", "0.1.weight", "1.0.linear.weight"}, (MEDUSA, 2, 4096, None)),
        ({**MEDUSA_CONFIG, "hidden_size": 256}, {"medusa_heads.0.0.linear.weight"}, (MEDUSA, 1, 256, None)),
        (MEDUSA_CONFIG, {"1" * 5000 + ".0.linear.weight"}, (MEDUSA, 4, 4096, None)),
        (OLD_MEDUSA, None, (MEDUSA, 5, 4096, None)),
        (ONE_LAYER, None, (UNKNOWN, None, 4096, None)),
    ],
)
def test_what_a_head_reads(config, names, wanted):
    """The method, the most tokens, the hidden size and the deepest layer."""
    facts = read(config, Stored(names))
    assert (facts.drafts_by, facts.drafted_most, facts.reads_hidden, facts.deepest_layer) == wanted
    assert ModelFacts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts


def test_medusa_heads_without_a_number_are_refused():
    """By the key that is missing."""
    with pytest.raises(FactsError, match="does not say num_heads"):
        read({"model_type": "medusa"}, Stored())


def of(config: dict[str, object], **more: object) -> ModelFacts:
    return read({**config, **more}, Stored(HEAD_NAMES if config is ONE_LAYER else ()))


@every_case(
    "draft, method, tokens, words",
    [
        (of(SMALL), DRAFT_MODEL, 64, None),
        (of(LLAMA), DRAFT_MODEL, 4, None),  # itself: of use in tests alone, and right
        (of(ONE_LAYER), EAGLE, 4, None),
        (of(EAGLE3_CONFIG), EAGLE3, 4, None),
        (of(EAGLE3_CONFIG, hidden_size=2048, target_hidden_size=4096), EAGLE3, 4, None),
        (of(EAGLE3_CONFIG, eagle_aux_hidden_state_layer_ids=[2, 16, 29]), EAGLE3, 4, None),
        (of({"speculators_model_type": "eagle3", "transformer_layer_config": ONE_LAYER}), EAGLE3, 4, None),
        (of(ONE_LAYER, architectures=["EagleDeepSeekMTPModel"]), EAGLE, 4, None),
        (of(ONE_LAYER, architectures=["PEagleDraftModel"]), EAGLE3, 4, None),
        (read(ONE_LAYER, Stored(None)), EAGLE, 4, None),
        (read(ONE_LAYER, Stored(None)), EAGLE3, 4, None),
        (read(SMALL, Stored(None)), DRAFT_MODEL, 4, None),
        (read({**ONE_LAYER, "hidden_size": 5120}, Stored(None)), EAGLE, 4, "reads hidden states of 5120 values"),
        (
            of({"speculators_model_type": "eagle", "transformer_layer_config": ONE_LAYER}),
            EAGLE,
            4,
            "no Eagle head of architecture EagleSpeculator; take a head of one of EagleLlamaForCausalLM,",
        ),
        (of(MEDUSA_CONFIG), MEDUSA, 4, None),
        (of(OLD_MEDUSA), MEDUSA, 5, None),
        (of(SMALL), EAGLE, 4, "holds a complete model, and the method is eagle; set the method to draft_model"),
        (of(ONE_LAYER), DRAFT_MODEL, 4, "holds an Eagle head, and the method is draft_model; set the method to eagle"),
        (of(EAGLE3_CONFIG), EAGLE, 4, "holds an Eagle-3 head, and the method is eagle; set the method to eagle3"),
        (of(MEDUSA_CONFIG), EAGLE3, 4, "holds Medusa heads, and the method is eagle3; set the method to medusa"),
        (of(SMALL, vocab_size=32000), DRAFT_MODEL, 4, "a vocabulary of 32000 tokens, and the served one of 128256"),
        (
            of(LLAMA, num_hidden_layers=80),
            DRAFT_MODEL,
            4,
            "parameters, and the served one 8.03 B; take a draft model that",
        ),
        (
            of(ONE_LAYER, hidden_size=5120),
            EAGLE,
            4,
            "reads hidden states of 5120 values, and the served model's have 4096",
        ),
        (of(EAGLE3_CONFIG, target_hidden_size=5120), EAGLE3, 4, "reads hidden states of 5120 values"),
        (of(MEDUSA_CONFIG, hidden_size=5120), MEDUSA, 4, "reads hidden states of 5120 values"),
        (of(ONE_LAYER, vocab_size=32000), EAGLE, 4, "a vocabulary of 32000 tokens, and the served model of 128256"),
        (of(EAGLE3_CONFIG, vocab_size=151936), EAGLE3, 4, "a vocabulary of 151936 tokens"),
        (of(MEDUSA_CONFIG, vocab_size=32001), MEDUSA, 4, "a vocabulary of 32001 tokens"),
        (
            of(EAGLE3_CONFIG, eagle_aux_hidden_state_layer_ids=[2, 40, 77]),
            EAGLE3,
            4,
            "reads layer 77 of the served model, which",
        ),
        (
            of(ONE_LAYER, architectures=["Qwen2ForCausalLM"]),
            EAGLE,
            4,
            "no Eagle head of architecture Qwen2ForCausalLM; take",
        ),
        (
            of(EAGLE3_CONFIG, architectures=["OPTForCausalLM"]),
            EAGLE3,
            4,
            "no Eagle-3 head of architecture OPTForCausalLM",
        ),
        (
            of(MEDUSA_CONFIG),
            MEDUSA,
            5,
            "5 tokens are to be drafted, and the draft directory has 4 Medusa heads; draft at most 4",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_both_figures(draft, method, tokens, words):
    """Both sides' figures and the remedy in one sentence; nothing for what fits."""
    found = unfit(SERVED, draft, method, tokens)
    assert ("; ".join(found) if found else None) is None if words is None else words in "; ".join(found)


def test_the_heads_are_those_of_the_engine():
    """Every architecture of the record that is named after a method, but for one model that is called so."""
    named = {name for name in ENGINE.architectures if re.search("eagle|medusa", name, re.I)}
    ours = {name for heads in ENGINE_HEADS.values() for name in heads}
    assert named - {"Eagle2_5_VLForConditionalGeneration"} == ours


@every_case("method, name", [(method, name) for method, row in ENGINE_HEADS.items() for name in row])
def test_a_head_that_the_engine_has_is_taken_for_its_method(method, name):
    """By its architecture alone; no rule refuses it for that."""
    head = of(MEDUSA_CONFIG if method == MEDUSA else ONE_LAYER, architectures=[name])
    assert head.drafts_by == method
    assert unfit(SERVED, head, method, 4) is None


def test_every_method_has_its_rules():
    """A new method comes with a name and rules."""
    assert drafter.RULES.keys() == drafter.NAMES.keys() == set(drafter.METHODS)


@pytest.mark.parametrize(
    ("config", "tp", "layers"),
    [(EAGLE3_CONFIG, 2, 1), (ONE_LAYER, 2, 1), (MEDUSA_CONFIG, 2, 0)],
)
def test_a_head_costs_its_weights_and_its_cache(config, tp, layers):
    """An Eagle head keeps one layer's keys and values, Medusa heads none; their blocks lie on every rank."""
    head = read(config, Stored(HEAD_NAMES if config is ONE_LAYER else (), 2 * 10**9, "bfloat16"))
    drafted, serving = replace(SERVED, draft=head), Serving(4096, tp=tp, quantization="fp8")
    assert kv_gib(drafted, serving) == pytest.approx(kv_gib(SERVED, serving) * (32 + layers) / 32)
    shared = 10**9 - (4 * 4096**2 if config is MEDUSA_CONFIG else 0)
    assert draft_gib(drafted, serving) == pytest.approx((shared / tp + 10**9 - shared) * 2 / GIB)


def head_directory(place: Path, config: dict[str, object]) -> Path:
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(config))
    (place / "model.safetensors").write_bytes(safetensors(2000))
    return place


def test_a_head_on_a_volume_needs_no_tokenizer(tmp_path):
    """The inspect Job gives its method; a complete model that drafts has a tokenizer."""
    model(tmp_path / "llama")
    head_directory(tmp_path / "head", {**CONFIG, "num_hidden_layers": 1, "draft_vocab_size": 50})
    field = "spec.engine.speculation.source: path"
    facts = seen(tmp_path, "llama", Beside(draft=Directory(tmp_path, "head", "PVC models", field))).facts
    assert (facts.draft.drafts_by, facts.draft.weights_bytes) == (EAGLE3, 2000)
    head_directory(tmp_path / "model", CONFIG)
    reason, message = told(seen(tmp_path, "llama", Beside(draft=Directory(tmp_path, "model", "PVC models", field))))
    assert (reason, field in message) == ("TokenizerMissing", True)


def test_a_head_whose_names_are_not_known_is_inspected(tmp_path):
    """A file of torch's older format says no names, and is no complete model for that: a head has no tokenizer."""
    place = head_directory(tmp_path / "head", {**CONFIG, "num_hidden_layers": 1})
    (place / "model.safetensors").unlink()
    (place / "pytorch_model.bin").write_bytes(pickle.dumps({"fc.weight": 1}))
    model(tmp_path / "llama")
    beside = Beside(draft=Directory(tmp_path, "head", "PVC models", "spec.engine.speculation.source: path"))
    assert seen(tmp_path, "llama", beside).facts.draft.drafts_by == UNKNOWN
