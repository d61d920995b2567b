"""What each way to quantize a checkpoint stores: bits with scales, and the weights that it leaves alone."""

from __future__ import annotations

import pytest
from windlass_sizing.model.facts import from_config
from windlass_sizing.model.quantized import packing_of
from windlass_sizing.model.skipped import plain_shares
from windlass_sizing.placement.formula import GIB, Serving, weights_gib
from windlass_sizing.quantization.methods import METHODS, reader_of

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


@pytest.mark.parametrize(("settings", "bits"), BITS.values(), ids=BITS.keys())
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
    "one matrix": (["model.layers.*.self_attn.o_proj"], {"attention output": 1.0}),
    "an expression by name": (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], {"mlp": 1.0}),
    "the tower": (["visual", "re:.*vision_tower.*"], {"vision or audio": 1.0}),
    "draft layers": (["mtp.layers.0*", "model.layers.4*"], {}),
    "router and head": (["lm_head", "model.layers.0.mlp.gate"], {}),
    "a broken expression": (["re:("], {}),
}


@pytest.mark.parametrize(("patterns", "shares"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_is_left_out_is_read_by_role(patterns, shares):
    """Every way to write it down."""
    every = frozenset(range(4))
    places = dict.fromkeys(("attention", "attention output", "mlp"), every)
    assert plain_shares(patterns, places) == shares


ONLINE = {
    "fp8": LINEAR + 4096 * 1024 + (REST - 4096 * 1024) * 2,  # its output head too
    "ifq": LINEAR + 4096 * 1024 + (REST - 4096 * 1024) * 2,
    "ifq_nf4": LINEAR * (0.5 + 2 / 64) + 4096 * 1024 + (REST - 4096 * 1024) * 2,
}


@pytest.mark.parametrize(("method", "size"), ONLINE.items(), ids=ONLINE.keys())
def test_online_methods_store_what_their_kernels_hold(method, size):
    """Codes and scales of linear layers; one scale for each row is a thousandth."""
    assert weights_gib(from_config(LLAMA), Serving(1024, quantization=method)) == pytest.approx(size / GIB, rel=2e-3)


@pytest.mark.parametrize("method", METHODS)
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
