"""Facts from real configurations, and clear words where one does not say enough."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_sizing.errors import FactsError
from windlass_sizing.facts import ModelFacts, from_config

DATA = Path(__file__).parent / "data"
MODELS = sorted(path.stem for path in DATA.glob("*.json"))
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}


def stored(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_within_one_percent(name):
    """The count from config.json alone equals the published model's."""
    model = stored(name)
    assert from_config(model["config"]).params == pytest.approx(model["params"], rel=0.01)


def test_facts_survive_their_journey_through_json():
    """What the inspect Job prints is what the operator reads, within 4 KiB."""
    for name in MODELS:
        facts = from_config(stored(name)["config"], weights_bytes=123456789)
        text = json.dumps(facts.to_dict())
        assert ModelFacts.from_dict(json.loads(text)) == facts
        assert len(text) < 2048


def test_facts_of_a_newer_version_are_read():
    """A key that we do not know is passed over."""
    facts = from_config(LLAMA)
    assert ModelFacts.from_dict({**facts.to_dict(), "from_the_future": 1}) == facts


@pytest.mark.parametrize(("params", "text"), [(2_851_072, "2.9 M"), (99_999_999, "100.0 M"), (7_615_616_512, "7.62 B")])
def test_sizes_read_as_people_say_them(params, text):
    assert replace(from_config(LLAMA), params=params).params_text == text


def test_incomplete_facts_are_refused():
    """A Job's line that was cut is not taken for facts."""
    with pytest.raises(FactsError, match="model facts are not complete"):
        ModelFacts.from_dict({"architecture": "x"})


def test_every_missing_key_is_named_at_once():
    """One error, all keys, each with the spellings that would do."""
    with pytest.raises(FactsError) as caught:
        from_config({"model_type": "llama", "hidden_size": 64})
    assert caught.value.missing == ("num_hidden_layers", "num_attention_heads", "vocab_size")
    assert "num_hidden_layers (read as num_hidden_layers, n_layer" in str(caught.value)


def test_an_unknown_architecture_needs_the_checkpoint():
    """Without bytes it is refused in words, with bytes it is measured."""
    config = {**LLAMA, "model_type": "brand_new"}
    with pytest.raises(FactsError, match='model_type "brand_new" is not in the table'):
        from_config(config)
    facts = from_config(config, weights_bytes=2_000_000)
    assert (facts.params, facts.weights_bytes) == (1_000_000, 2_000_000)


def test_plain_files_win_over_the_count():
    """Real bytes are the truth, in the format that the files have, not that of config.json."""
    facts = from_config(LLAMA, weights_bytes=4_000_000, stored_dtype="float32")
    assert (facts.params, facts.stored_dtype) == (1_000_000, "float32")


def test_a_quantized_checkpoint_keeps_the_counted_parameters():
    """Packed bytes do not say how many parameters there are; the configuration does."""
    config = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    facts = from_config(config, weights_bytes=70_000)
    assert (facts.quantization, facts.quantization_bits) == ("gptq", 4)
    assert facts.params == from_config(LLAMA).params


def test_modelopt_settings_from_the_file_beside_are_understood():
    """hf_quant_config.json nests its settings one deeper."""
    settings = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    facts = from_config({**LLAMA, "quantization_config": settings})
    assert (facts.quantization, facts.quantization_bits) == ("modelopt", 4.5)


def test_a_nested_text_part_is_the_model():
    """A vision model's language part is what the formula reads."""
    facts = from_config(stored("Qwen3-VL-8B-Instruct")["config"])
    assert facts.multimodal
    assert facts.num_hidden_layers == 36
    assert "vision or audio part is not counted" in facts.params_how


def test_sliding_and_latent_layers_are_told_apart():
    """Windows and latent caches hold less than whole contexts."""
    gemma, deepseek = (from_config(stored(name)["config"]) for name in ("gemma-2-2b", "DeepSeek-V3"))
    assert (gemma.kv_layers, gemma.window_layers, gemma.window) == (13, 13, 4096)
    assert deepseek.latent_kv_dim == 576
