"""Real models of every family that we know: parameters, checkpoint bytes and attention sizes from config.json alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass_sizing.model.dtypes import dtype_bytes
from windlass_sizing.model.facts import from_config
from windlass_sizing.model.keys import SPELLINGS
from windlass_sizing.placement import words
from windlass_sizing.quantization.methods import reader_of
from windlass_testbed.cases import every_case

MODELS = json.loads((Path(__file__).parent / "data" / "models.json").read_text())
NAMES = [model["name"] for model in MODELS]
WITH_BYTES = [model for model in MODELS if "checkpoint_bytes" in model]
CLOSE = 0.03


@every_case("model", MODELS, ids=NAMES)
def test_weights_are_within_three_percent(model):
    """The published model's parameters, vision and audio parts with them."""
    assert from_config(model["config"]).params == pytest.approx(model["params"], rel=CLOSE)


@every_case("model", WITH_BYTES, ids=[model["name"] for model in WITH_BYTES])
def test_checkpoints_are_within_three_percent(model):
    """The bytes on disk, by the stored format or by the checkpoint's own quantization with its scales."""
    facts = from_config(model["config"])
    counted = facts.counted_bytes or facts.params * dtype_bytes(facts.stored_dtype or "float16")
    assert counted == pytest.approx(model["checkpoint_bytes"], rel=CLOSE)


@every_case("model", MODELS, ids=NAMES)
def test_attention_is_read_as_a_loader_reads_it(model):
    """Layers, heads, KV heads and head size with library defaults filled in."""
    facts = from_config(model["config"])
    sizes = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim")
    assert {name: getattr(facts, name) for name in sizes if name in model} == {
        name: model[name] for name in sizes if name in model
    }


@every_case("model", MODELS, ids=NAMES)
def test_no_model_needs_the_fallback(model):
    """Each family is in the table: none is counted as a guess."""
    assert "is not in the table" not in from_config(model["config"]).params_how


@every_case("model", MODELS, ids=NAMES)
def test_facts_fit_a_termination_message(model):
    """What the inspect Job prints stays well under 4 KiB."""
    assert len(json.dumps(from_config(model["config"], weights_bytes=123456789).to_dict())) < 2048


@every_case("model", MODELS, ids=NAMES)
def test_no_model_is_warned_of(model):
    """Each is near, so that a warning of keys that nothing reads would be a false one."""
    assert from_config(model["config"]).unread is None


KEYS = {
    "NVIDIA-Nemotron-3-Super-120B-A12B-FP8": ("expert_hidden_size", "moe_latent_size"),
    "DeepSeek-V3": ("dense_layers", "first_k_dense_replace"),
    "Kimi-K3": ("expert_hidden_size", "routed_expert_hidden_size"),
}


def test_a_checkpoint_that_the_engine_gives_another_reader():
    """Kimi K3's experts are compressed-tensors to the checkpoint and MXFP4 to the engine, which needs bfloat16."""
    config = next(model["config"] for model in MODELS if model["name"] == "Kimi-K3")
    text = config["text_config"]
    settings = text["quantization_config"] | {"format": "mxfp4-pack-quantized"}  # which the record leaves out
    config = config | {"text_config": text | {"quantization_config": settings}}
    facts = from_config(config)
    assert (facts.quantization, facts.quantization_bits) == ("mxfp4", 4)
    assert reader_of(facts.quantization).dtypes == ("bfloat16",)
    assert from_config(config | {"architectures": ["KimiK3ForCausalLM"]}).quantization == "compressed-tensors"


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_the_class_reads_and_nothing_here_is_named(name, monkeypatch):
    """As before its mend: without the spelling, the plan says what it does not read."""
    fact, key = KEYS[name]
    monkeypatch.setitem(SPELLINGS, fact, tuple(one for one in SPELLINGS[fact] if one != key))
    facts = from_config(next(model["config"] for model in MODELS if model["name"] == name))
    assert facts.unread == key
    assert words.unread(facts) == (
        f"warning: nothing here reads {key} of config.json, on which the model's size depends: check the figures",
    )
