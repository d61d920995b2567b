"""Facts from real configurations, and clear words where one does not say enough."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass_sizing.errors import FactsError
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_testbed.cases import every_case

DATA = Path(__file__).parent / "data"
MODELS = sorted(path.stem for path in DATA.glob("*.json") if path.stem != "models")
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
    "tie_word_embeddings": False,
}


def stored(name: str) -> dict:
    return json.loads((DATA / f"{name}.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_counted_within_one_percent(name):
    """The count from config.json alone equals the published model's, or that of its language part."""
    model = stored(name)
    counted = from_config(model["config"])
    towers = 0.07 if counted.multimodal else 0.0  # these figures are of the language part
    assert model["params"] * 0.99 <= counted.params <= model["params"] * (1.01 + towers)


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


@pytest.mark.parametrize("path", ["/etc", "/", "//etc", "..", "../x", "a/../../x", "a/..", 7, "a\n", "a" * 257])
def test_a_base_lies_inside_the_volume(path):
    """Pods mount it: the facts may have been written by anybody."""
    with pytest.raises(FactsError, match=r"base_path is .* and must be"):
        ModelFacts.from_dict({**from_config(LLAMA).to_dict(), "base_path": path})


@pytest.mark.parametrize("path", ["base", "Qwen/Qwen2-7B", "a b/.hidden/..c", "a..b"])
def test_a_base_may_have_any_name(path):
    facts = ModelFacts.from_dict({**from_config(LLAMA).to_dict(), "base_path": path})
    assert facts.base_path == path


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


def test_an_unknown_architecture_is_counted_by_the_usual_shape():
    """The count says that it is one, and the checkpoint's bytes win where they contradict it."""
    config = {**LLAMA, "model_type": "brand_new"}
    facts = from_config(config)
    assert facts.params == from_config(LLAMA).params
    assert 'as model_type "brand_new" is not in the table' in facts.params_how
    measured = from_config(config, weights_bytes=2_000_000)
    assert (measured.params, measured.weights_bytes) == (1_000_000, 2_000_000)


def test_an_unknown_architecture_that_does_not_say_is_tied():
    """As the base class of all configurations has it."""
    silent = {key: value for key, value in LLAMA.items() if key != "tie_word_embeddings"}
    tied, untied = (from_config({**config, "model_type": "brand_new"}).params for config in (silent, LLAMA))
    assert untied - tied == LLAMA["vocab_size"] * LLAMA["hidden_size"]


def test_what_no_table_can_count_needs_the_checkpoint():
    """Refused in words without bytes, measured with them."""
    config = {**LLAMA, "model_type": "rwkv"}
    with pytest.raises(FactsError, match='model_type "rwkv" cannot be counted'):
        from_config(config)
    assert from_config(config, weights_bytes=2_000_000).params == 1_000_000


def test_a_missing_width_is_named():
    """An unknown model without an MLP size is refused, not counted too small."""
    config = {key: value for key, value in LLAMA.items() if key != "intermediate_size"}
    with pytest.raises(FactsError, match="intermediate_size") as caught:
        from_config({**config, "model_type": "brand_new"})
    assert caught.value.missing == ("intermediate_size",)


def test_plain_files_win_over_the_count():
    """Real bytes are the truth, in the format that the files have, not that of config.json."""
    facts = from_config(LLAMA, weights_bytes=4_000_000, stored_dtype="float32")
    assert (facts.params, facts.stored_dtype) == (1_000_000, "float32")


def test_a_quantized_checkpoint_keeps_the_counted_parameters():
    """Packed bytes do not say how many parameters there are; the configuration does."""
    config = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    facts = from_config(config, weights_bytes=300_000)
    assert (facts.quantization, facts.quantization_bits) == ("gptq", 4)
    assert facts.params == from_config(LLAMA).params


def test_modelopt_settings_from_the_file_beside_are_understood():
    """hf_quant_config.json nests its settings one deeper."""
    settings = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}
    facts = from_config({**LLAMA, "quantization_config": settings})
    assert (facts.quantization, facts.quantization_bits) == ("modelopt_fp4", 4)


def test_a_nested_text_part_is_the_model():
    """A vision model's language part is what the formula reads, and its tower is counted beside."""
    facts = from_config(stored("Qwen3-VL-8B-Instruct")["config"])
    assert facts.multimodal
    assert facts.num_hidden_layers == 36


def test_a_tower_that_cannot_be_counted_is_reported():
    """No silent guess."""
    facts = from_config({**LLAMA, "vision_config": {"model_type": "unheard_of"}})
    assert "vision or audio part is not counted" in facts.params_how


def test_layers_with_their_own_kv_sizes_are_reported():
    """Gemma 4 keeps fewer, wider heads in the layers that see everything; shared layers keep nothing."""
    sizes = {"head_dim": 16, "global_head_dim": 32, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}
    facts = from_config({**LLAMA, **sizes, **kinds, "model_type": "gemma4_text"})
    assert (facts.kv_layers, facts.window_layers, facts.window) == (1, 1, 64)
    assert (facts.full_kv_heads, facts.full_kv_dim, facts.num_key_value_heads) == (1, 64, 2)
    shared = from_config({**LLAMA, **sizes, **kinds, "model_type": "gemma4_text", "num_kv_shared_layers": 1})
    assert (shared.kv_layers, shared.window_layers) == (0, 1)


def test_sliding_and_latent_layers_are_distinguished():
    """Windows and latent caches hold less than whole contexts."""
    gemma, deepseek = (from_config(stored(name)["config"]) for name in ("gemma-2-2b", "DeepSeek-V3"))
    assert (gemma.kv_layers, gemma.window_layers, gemma.window) == (13, 13, 4096)
    assert deepseek.latent_kv_dim == 576


IMPOSSIBLE = [
    *(("num_attention_heads", value) for value in (0, -1, "x", 1.5, True, None, 10**400, float("nan"))),
    *(("weights_bytes", value) for value in (-1, "x", [], True, float("inf"))),
    *(("quantization_bits", value) for value in ("4", float("nan"), -1)),
    *(("architecture", value) for value in (None, 5, "x" * 300)),
    ("multimodal", 1),
]


@every_case("name, value", IMPOSSIBLE)
def test_facts_that_no_model_can_have_are_refused_by_name(name, value):
    """They may come from anybody who can write the annotation that keeps them."""
    facts = from_config(LLAMA).to_dict()
    with pytest.raises(FactsError, match=f"{name} "):
        ModelFacts.from_dict({**facts, name: value})


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        ("LlamaForCausalLM", 64_000),
        ("LlamaForSequenceClassification", 0),
        ("LlamaModel", 0),
        ("InternLM2ForRewardModel", 0),
        ("ChatGLMModel", 64_000),
        ("GPT2LMHeadModel", 64_000),
    ],
)
def test_classes_that_do_not_generate_have_no_output_head(architecture, head):
    """The engine builds none for them, and their files hold none."""
    assert from_config({**LLAMA, "architectures": [architecture]}).head_params == head


def test_experts_without_weights_are_known_to_the_router_alone():
    """LongCat's identity experts; what its class works out of other keys is no size that nothing reads."""
    latent = {"kv_lora_rank": 32, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    flash = {**LLAMA, **latent, "model_type": "longcat_flash", "n_routed_experts": 8, "expert_ffn_hidden_size": 32}
    more = from_config({**flash, "zero_expert_num": 4, "qk_head_dim": 24})
    assert (more.params - from_config({**flash, "zero_expert_num": 0}).params, more.unread) == (2 * 64 * 4, None)


def test_an_encoder_keeps_no_keys_and_values():
    facts = from_config({**LLAMA, "architectures": ["BertModel"], "model_type": "bert", "type_vocab_size": 2})
    assert (facts.kv_layers, facts.window_layers, facts.unread) == (0, 0, None)


def test_sliding_layers_are_named_by_number():
    """Inkling's own file, and the words that transformers writes for it."""
    sizes = {**LLAMA, "model_type": "inkling_text", "num_hidden_layers": 3, "sliding_window_size": 512}
    by_number, by_word = {"local_layer_ids": [0, 1]}, {"layer_types": ["hybrid_sliding", "hybrid_sliding", "hybrid"]}
    for words in (by_number, by_word):
        facts = from_config({**sizes, **words})
        assert (facts.kv_layers, facts.window_layers, facts.window) == (1, 2, 512)


@pytest.mark.parametrize("depth", [{"num_hidden_layers": 64, "num_layers_per_stack": 8}, {"num_hidden_layers": 8}])
def test_layers_that_run_again_have_weights_once_and_keys_and_values_each_time(depth):
    """Two stacks of eight layers (HRM), of which one runs twice and the other three times in each: 64 of 16."""
    again = from_config({**LLAMA, **depth, "H_cycles": 2, "L_cycles": 3})
    plain = from_config({**LLAMA, "num_hidden_layers": 16})
    assert (again.linear_params, again.kv_layers, again.num_hidden_layers) == (plain.linear_params, 64, 64)


def test_layers_that_run_too_often_are_refused():
    with pytest.raises(FactsError, match="num_hidden_layers"):
        from_config({**LLAMA, "H_cycles": 10**9, "L_cycles": 10**9})
