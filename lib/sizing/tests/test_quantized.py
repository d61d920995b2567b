"""What each way to quantize a checkpoint stores: bits with scales, and the weights that it leaves alone."""

from __future__ import annotations

import pytest
from windlass_sizing.model.facts import from_config
from windlass_sizing.model.modules import Modules, shares
from windlass_sizing.model.quantized import packing_of
from windlass_sizing.placement.formula import GIB, Serving, kv_gib, weights_gib
from windlass_sizing.quantization.decision import decide, of_facts
from windlass_sizing.quantization.methods import METHODS, reader_of
from windlass_sizing.quantization.question import Card
from windlass_testbed.cases import every_case

SIZES = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
LLAMA = {"model_type": "llama", **SIZES}
MIXTURE = {"model_type": "qwen3_moe", **SIZES, "head_dim": 128, "num_experts": 8, "moe_intermediate_size": 512}
LINEAR = 4 * (4 * 1024 * 1024 + 3 * 1024 * 4096)
REST = 2 * 4096 * 1024 + 9 * 1024  # embedding, output head, norms
INT4_GROUPS = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "targets": ["Linear"]}
FP8_CHANNELS = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "targets": ["Linear"]}
NVFP4 = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["Linear"]}

BITS = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
    "gptq without groups": ({"quant_method": "gptq", "bits": 3, "group_size": -1}, 3),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 + 20 / 128),
    "fp8": ({"quant_method": "fp8"}, 8),
    "fp8 in blocks": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
    "bitsandbytes int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
    "bitsandbytes nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.5),
    "bitsandbytes nf4 twice": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
        4 + 8 / 64 + 32 / (64 * 256),
    ),
    "compressed-tensors int4": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": INT4_GROUPS}, "ignore": ["lm_head"]},
        4.5,
    ),
    "compressed-tensors fp8": ({"quant_method": "compressed-tensors", "config_groups": {"group_0": FP8_CHANNELS}}, 8),
    "compressed-tensors nvfp4": ({"quant_method": "compressed-tensors", "config_groups": {"group_0": NVFP4}}, 4.5),
    "modelopt nvfp4": ({"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}, 4.5),
    "modelopt fp8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8),
}


@every_case("settings, bits", BITS.values(), ids=BITS.keys())
def test_bits_with_their_scales(settings, bits):
    """Linear layers packed, embedding and output head in two bytes."""
    facts = from_config({**LLAMA, "quantization_config": settings})
    assert facts.counted_bytes == pytest.approx(LINEAR * bits / 8 + REST * 2, rel=1e-4)
    assert weights_gib(facts, Serving(1024)) == facts.counted_bytes / GIB


def test_mxfp4_packs_the_experts_alone():
    """As gpt-oss is stored."""
    plain = from_config(MIXTURE)
    facts = from_config({**MIXTURE, "quantization_config": {"quant_method": "mxfp4"}})
    experts = 4 * 3 * 8 * 512 * 1024
    assert facts.counted_bytes == pytest.approx((plain.params - experts) * 2 + experts * 4.25 / 8)


def test_settings_in_the_language_part_are_found():
    """Some vision models nest them."""
    nested = {"text_config": {**LLAMA, "quantization_config": BITS["awq"][0]}}
    assert from_config({"model_type": "some_vl", **nested}).quantization == "awq"


ATTENTION_EVERYWHERE = {"attention": 1.0, "attention output": 1.0}
LEFT_OUT = {
    "whole paths": ([f"model.layers.{layer}.self_attn" for layer in range(4)], ATTENTION_EVERYWHERE),
    "half of the layers": (
        ["model.layers.0.self_attn*", "model.layers.1.self_attn*"],
        {"attention": 0.5, "attention output": 0.5},
    ),
    "an expression": (["re:.*self_attn.*"], ATTENTION_EVERYWHERE),
    "a glob": (["model.layers.*.self_attn"], ATTENTION_EVERYWHERE),
    "another prefix": (["model.language_model.layers.*.self_attn*"], ATTENTION_EVERYWHERE),
    "the language model of another model": (["language_model.model.layers.*.self_attn*"], ATTENTION_EVERYWHERE),
    "a backbone": (["backbone.layers.*.self_attn.*"], ATTENTION_EVERYWHERE),
    "a tower's layers": (["vision_tower.encoder.layers.*"], {"vision or audio": 1.0}),
    "one matrix": (["model.layers.*.self_attn.o_proj"], {"attention output": 1.0}),
    "an expression by name": (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], {"mlp": 1.0}),
    "the tower": (["visual", "re:.*vision_tower.*"], {"vision or audio": 1.0}),
    "draft layers": (["mtp.layers.0*", "model.layers.4*"], {}),
    "router and head": (["lm_head", "model.layers.0.mlp.gate"], {"head": 1.0}),
    "a broken expression": (["re:("], {}),
    "layers by number": (
        [r"re:model\.layers\.(0|3)\.self_attn.*"],
        {"attention": 0.5, "attention output": 0.5},
    ),
    "another expert": (["model.layers.0.mlp.experts.7.gate_proj"], {}),
}


@every_case("patterns, shares_left_out", LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_is_left_out_is_read_by_role(patterns, shares_left_out):
    """Every way to write it down."""
    every = frozenset(range(4))
    places = dict.fromkeys(("attention", "attention output", "mlp"), every)
    packed = shares(Modules(patterns), [None], places)
    assert {role: 1 - share for role, (share,) in packed.items() if share < 1} == shares_left_out


def weights(role, places, settings, model_type=""):
    """Bits a weight of a role, on average, with what stays plain."""
    packing = packing_of({"quantization_config": settings}, places, model_type)
    return packing.stored_bytes({role: 2**20}, 2) * 8 / 2**20


EVERY_LAYER = dict.fromkeys(("attention", "attention output", "mlp", "experts", "state mixer"), frozenset(range(4)))
ATTENTION_NAMES = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_NAMES = ("gate_proj", "up_proj", "down_proj")
FP8_ATTENTION = [f"model.layers.{layer}.self_attn.{name}" for layer in range(4) for name in ATTENTION_NAMES]
FP4_MLP = [f"model.layers.{layer}.mlp.{name}" for layer in range(4) for name in MLP_NAMES]
MIXED = {
    "groups of paths": {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "config_groups": {
            "a": {"targets": FP8_ATTENTION, "weights": {"num_bits": 8, "type": "float"}},
            "b": {"targets": FP4_MLP, "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
        },
    },
    "layers of a file beside": {
        "quantization": {
            "quant_algo": "MIXED_PRECISION",
            "quantized_layers": {
                **{name: {"quant_algo": "FP8"} for name in FP8_ATTENTION},
                **{name: {"quant_algo": "NVFP4", "group_size": 16} for name in FP4_MLP},
            },
        }
    },
    "a class after names": {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "a": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}},
            "b": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
        },
    },
}


@pytest.mark.parametrize("settings", MIXED.values(), ids=MIXED.keys())
def test_several_formats_in_one_checkpoint(settings):
    """Layer by layer, whoever wrote the list."""
    found = {role: weights(role, EVERY_LAYER, settings) for role in ("attention", "attention output", "mlp")}
    assert found == {"attention": 8, "attention output": 8, "mlp": 4.5}


def test_a_head_is_packed_where_it_is_named():
    """And never by the class of its module."""
    named = {"lm_head": {"quant_algo": "W4A16_NVFP4"}, **{name: {"quant_algo": "FP8"} for name in FP8_ATTENTION}}
    settings = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": named}}
    assert [weights(role, EVERY_LAYER, settings) for role in ("head", "attention", "mlp")] == [4.5, 8, 16]
    assert weights("head", EVERY_LAYER, {"quant_method": "compressed-tensors", "config_groups": {"a": NVFP4}}) == 16


def test_layers_that_no_format_names_stay_plain():
    """Half of the layers in four bits, the others in sixteen."""
    half = [name for name in FP4_MLP if ".0." in name or ".1." in name]
    group = {"targets": half, "weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    settings = {"quant_method": "compressed-tensors", "config_groups": {"a": group}}
    assert weights("mlp", EVERY_LAYER, settings) == (4.5 + 16) / 2
    assert weights("attention", EVERY_LAYER, settings) == 16


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
INT4_TORCHAO = {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}}
QUARK_FP4 = {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}}
NESTED = {
    "torchao, a class": ({"quant_method": "torchao", "quant_type": INT4_TORCHAO}, 4 + 20 / 128),
    "torchao, a word": ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, 8),
    "torchao, the weights' word": (
        {"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int4_weight", "group_size": 32},
        4 + 20 / 32,
    ),
    "torchao, a type inside": (
        {
            "quant_method": "torchao",
            "quant_type": {
                "default": {
                    "_type": "IntxWeightOnlyConfig",
                    "_data": {"weight_dtype": {"_type": "torch.dtype", "_data": "int4"}, "group_size": 64},
                }
            },
        },
        4 + 20 / 64,
    ),
    "quark": ({"quant_method": "quark", "global_quant_config": QUARK_FP4}, 4 + 8 / 32),
}


@pytest.mark.parametrize(("settings", "bits"), NESTED.values(), ids=NESTED.keys())
def test_bits_in_a_nested_description(settings, bits):
    """torchao names a class, or a word; Quark a type of the weights."""
    assert weights("attention", EVERY_LAYER, settings) == bits


RULES = {
    "left out": ({r"-:.*\.self_attn\..*": {}}, 16),
    "left out in two layers": ({r"-:model\.layers\.[01]\.self_attn.*": {}}, (16 + 4 + 20 / 128) / 2),
    "in more bits": ({r"+:.*\.self_attn\..*": {"bits": 8, "group_size": 64}}, 8),
    "without a sign": ({r".*\.self_attn\..*": {"bits": 8}}, 8),
    "another module": ({r"-:.*\.mlp\..*": {}}, 4 + 20 / 128),
}


@pytest.mark.parametrize(("rules", "bits"), RULES.values(), ids=RULES.keys())
def test_gptq_s_rules_by_module(rules, bits):
    """`dynamic`: a minus leaves modules out, others have bits of their own."""
    assert weights("attention", EVERY_LAYER, {**GPTQ, "dynamic": rules}) == bits


def test_autoround_s_own_bits_of_a_module():
    settings = {"quant_method": "auto-round", "bits": 4, "group_size": 128}
    extra = {f"model.layers.{layer}.self_attn.{name}": {"bits": 16} for layer in range(4) for name in ATTENTION_NAMES}
    assert weights("attention", EVERY_LAYER, {**settings, "extra_config": extra}) == 16
    assert weights("mlp", EVERY_LAYER, {**settings, "extra_config": extra}) == 4 + 20 / 128


DENSE = "re:.*mlp\\.(gate|up|down)_proj.*"
BESIDE = {
    "gemma4_text": [("mlp", 16), ("experts", 4.5)],
    "kimi_linear": [("mlp", 16), ("experts", 4.5), ("state mixer", 4.5)],
}


@pytest.mark.parametrize("pattern", [DENSE, "re:.*mlp.*", "model.layers.*.mlp.*"])
@pytest.mark.parametrize("model_type", BESIDE)
def test_a_dense_part_left_out_leaves_the_experts_packed(model_type, pattern):
    """Where a layer's experts have another name than its dense part."""
    settings = {"quant_method": "compressed-tensors", "config_groups": {"a": NVFP4}, "ignore": [pattern]}
    found = [(role, weights(role, EVERY_LAYER, settings, model_type)) for role, _ in BESIDE[model_type]]
    assert found == BESIDE[model_type]


def test_packed_bytes_that_are_as_counted_keep_the_counted_parameters():
    """A large vocabulary in sixteen bits is no reason to take all bytes for packed ones."""
    settings = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    config = {
        **LLAMA, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 128256, "quantization_config": settings,
    }  # fmt: skip
    assert from_config(config, weights_bytes=5_727_301_632).params == from_config(config).params == 8_030_261_248


def test_settings_without_a_method_are_of_no_reader():
    """MLX writes such files, and the engine takes the model for unquantized."""
    facts = from_config({**LLAMA, "quantization_config": {"group_size": 64, "bits": 4}})
    found = decide(None, "auto", Card(), *of_facts(facts))
    assert found.problem is not None
    assert "names no quant_method, as MLX leaves it out" in found.problem.sentence()


KV = {
    "compressed-tensors": ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, 8),
    "modelopt": ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, 8),
    "modelopt's scheme": (
        {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False},
        },
        8,
    ),
    "modelopt's four bits": ({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}}, 4.5),
    "none": ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, None),
    "another method": ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8}}, None),
}


@pytest.mark.parametrize(("settings", "bits"), KV.values(), ids=KV.keys())
def test_a_kv_cache_that_the_checkpoint_asks_for(settings, bits):
    """The engine takes it where its own flag is auto."""
    facts = from_config({**LLAMA, "quantization_config": settings})
    assert facts.kv_bits == bits
    plain, own = from_config(LLAMA), (bits or 16) / 16
    assert kv_gib(facts, Serving(1024)) == kv_gib(plain, Serving(1024)) * own
    assert kv_gib(facts, Serving(1024, kv_cache_dtype="fp8")) == kv_gib(plain, Serving(1024)) / 2
    assert kv_gib(facts, Serving(1024, kv_cache_dtype="bfloat16")) == kv_gib(plain, Serving(1024))


ONLINE = {
    "fp8": LINEAR + 4096 * 1024 + (REST - 4096 * 1024) * 2,  # its output head too
    "ifq": LINEAR + 4096 * 1024 + (REST - 4096 * 1024) * 2,
    "ifq_nf4": LINEAR * (0.5 + 2 / 64) + 4096 * 1024 + (REST - 4096 * 1024) * 2,
}


@pytest.mark.parametrize(("method", "size"), ONLINE.items(), ids=ONLINE.keys())
def test_online_methods_store_what_their_kernels_hold(method, size):
    """Codes and scales of linear layers; one scale for each row is a thousandth."""
    assert weights_gib(from_config(LLAMA), Serving(1024, quantization=method)) == pytest.approx(size / GIB, rel=2e-3)


@every_case("method", METHODS)
def test_real_bytes_are_never_below_the_nominal(method):
    """Scales come on top."""
    row = METHODS[method]
    assert (row.real_bytes or 0) >= (row.nominal_bytes or 0)


@pytest.mark.parametrize(
    ("algorithm", "reader"),
    [
        ("FP8", "modelopt"),
        ("NVFP4", "modelopt_fp4"),
        ("NVFP4_AWQ", "modelopt_fp4"),
        ("MXFP8", "modelopt_mxfp8"),
        ("MIXED_PRECISION", "modelopt_mixed"),
    ],
)
def test_modelopt_s_algorithm_names_the_engine_s_reader(algorithm, reader):
    """One `quant_method` stands for four readers that need different cards and number formats."""
    settings = {"quant_method": "modelopt", "quant_algo": algorithm}
    packing = packing_of({"quantization_config": settings}, {})
    assert packing is not None
    assert packing.method == reader
    assert reader_of(packing.method) is not None


@pytest.mark.parametrize(("method", "packed"), [("compressed-tensors", 1), ("gptq", 0)])
def test_a_path_of_compressed_tensors_names_one_module(method, packed):
    """`…linear_attn` beside packed modules below it: other methods leave out what lies below a path."""
    settings = {"quant_method": method, "bits": 4, "config_groups": {"a": INT4_GROUPS}}
    left_out = {"ignore": ["model.layers.0.self_attn"]}
    found = packing_of({"quantization_config": settings | left_out}, {"attention": frozenset({0})}, "llama")
    assert sum(share for share, _ in found.packed["attention"]) == packed
