"""Model directories that a hostile owner of a volume might write, from a seed: whole ones, then bent in a few places.

Standard library only, so that the same inputs reach an older commit: PYTHONPATH names the code under attack.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000,
    "max_position_embeddings": 256, "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "model_type": "deepseek_v3", "kv_lora_rank": 32, "q_lora_rank": 16, "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 8, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_shared_experts": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text", "sliding_window": 64,
    "sliding_window_pattern": 6}, "vision_config": {"hidden_size": 32, "num_hidden_layers": 2, "patch_size": 14,
    "image_size": 224, "intermediate_size": 64, "num_attention_heads": 2},
}  # fmt: skip
NEMOTRON = {
    **LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": "M-M*E", "mamba_num_heads": 4,
    "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 2, "conv_kernel": 4,
    "quantization_config": {"config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 4,
    "group_size": 32}}}, "ignore": ["lm_head", "re:.*mlp.*"], "quant_method": "compressed-tensors"},
}  # fmt: skip
NEO = {**LLAMA, "model_type": "gpt_neo", "attention_types": [[["global", "local"], 1]], "window_size": 16}
BASES = (LLAMA, DEEPSEEK, GEMMA, NEMOTRON, NEO)
EXTRA_KEYS = (
    *("n_embd", "n_layer", "n_head", "multi_query", "sliding_window", "layer_types", "layers_block_type", "moe_layers"),
    *("block_configs", "compress_ratios", "compress_rates", "num_experts", "num_local_experts", "rope_scaling"),
    *("attn_layer_period", "attn_layer_offset", "full_attention_interval", "decoder_sparse_step", "mlp_only_layers"),
    *("linear_attn_config", "attention_types", "full_attn_idxs", "moe_layers_enum", "expansion_ratio", "hc_mult"),
    *("moe_layer_start_index", "cla_share_factor", "num_kv_shared_layers", "block_multiple_of", "share_q_dim"),
    *("lru_width", "conv_L_cache", "linear_num_value_heads", "mamba_expand", "global_head_dim", "use_cla"),
    *("attention_other_setting", "block_auto_adjust_ff_dim", "seq_length", "dtype", "thinker_config", "audio_config"),
)
NUMBERS = (
    *(0, -1, 1, 2, 3, 7, 255, 65_537, 2**31, 10**9 + 7, 1_000_000_000_039, 2**53, 2**53 + 1, 10**40, 10**400),
    *(0.5, 1e30, 1e308, float("inf"), float("-inf"), float("nan"), True, False, None),
)
PATTERNS = ("re:(a+)+$", "re:(.*)*x", "re:((a|b|.)*)*q", "*a*b*c*d*", "re:(", "lm_head", "", "layers.99999999999.mlp")
DTYPES = ("BF16", "F32", "F8_E4M3", "", "x" * 5000, 5, None)


def value(chance: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can hold, mostly at its edges."""
    kind = chance.randrange(10 if depth < 3 else 5)
    if kind < 5:
        return chance.choice(NUMBERS)
    if kind < 7:
        words = (
            "",
            "full_attention",
            "linear_attention",
            "\ud800",
            "\u0000",
            "x" * chance.choice((1, 300, 9000)),
            "MLM*E",
        )
        return chance.choice((*words, *PATTERNS))
    if kind < 9:
        return [value(chance, depth + 1) for _ in range(chance.choice((0, 1, 2, 9, 200)) if depth < 2 else 2)]
    return {chance.choice(EXTRA_KEYS): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def _places(config: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    inner = [place for one in config.values() if isinstance(one, dict) for place in _places(one)]
    return [*((config, key) for key in config), *inner]


def bent_config(chance: random.Random) -> dict[str, Any]:
    """A whole configuration with up to six values replaced, added or taken out."""
    config = json.loads(json.dumps(chance.choice(BASES)))
    for _ in range(chance.randrange(7)):
        holder, key = chance.choice(_places(config) or [(config, "model_type")])
        how = chance.randrange(5)
        if how == 0:
            holder.pop(key, None)
        elif how == 1:
            holder[chance.choice(EXTRA_KEYS)] = value(chance)
        elif how == 2 and isinstance(holder.get(key), int):
            holder[key] = chance.choice(NUMBERS)
        elif how == 3 and "quantization_config" in config:
            config["quantization_config"] = {
                "ignore": [chance.choice(PATTERNS) for _ in range(3)],
                "bits": value(chance, 2),
            }
        else:
            holder[key] = value(chance)
    return config


def bent_bytes(chance: random.Random, raw: bytes) -> bytes:
    """Mostly the bytes as they are; else cut, flipped, nested or repeated."""
    how = chance.randrange(24)
    if how == 0:
        return raw[: chance.randrange(len(raw) + 1)]
    if how == 1:
        place = chance.randrange(max(1, len(raw)))
        return raw[:place] + bytes([chance.randrange(256)]) + raw[place + 1 :]
    if how == 2:
        return b"[" * chance.choice((10, 990, 5000)) + raw
    if how == 3:
        depth = chance.choice((50, 900, 3000))
        return b'{"text_config":' * depth + raw + b"}" * depth
    return raw


def bent_header(chance: random.Random) -> bytes:
    """A safetensors file: a header of a few tensors, and too few, enough or too many bytes behind it."""
    header: dict[str, Any] = {}
    for number in range(chance.randrange(4)):
        begin = chance.choice((0, 1, 100, -5, 2**63, 10**30, "7", None, 1.5, float("inf")))
        end = chance.choice((100, 0, 2**40, 10**30, "x", float("nan"), [1]))
        if chance.randrange(2):
            begin, end = 0, 100
        row: Any = {"dtype": chance.choice(DTYPES), "shape": [50], "data_offsets": [begin, end]}
        header[f"w{number}"] = value(chance, 2) if chance.randrange(8) == 0 else row
    text = bent_bytes(chance, json.dumps(header).encode())
    length = chance.choice((0, 1, 2**63, 2**40, len(text) + 1)) if chance.randrange(6) == 0 else len(text)
    return length.to_bytes(8, "little") + text + bytes(chance.choice((100, 100, 100, 0, 99)))


def bent_index(chance: random.Random) -> bytes:
    """An index of the weights that names files that are there, missing, elsewhere or impossible."""
    names = ("model.safetensors", "model.safetensors", "a.bin", "../x", "", "\ud800", "x" * 300, "\u0000", 5, None)
    found: Any = {"weight_map": {f"w{number}": chance.choice(names[: chance.choice((2, 10))]) for number in range(3)}}
    if chance.randrange(6) == 0:
        found = value(chance)
    return bent_bytes(chance, json.dumps(found).encode())


def write(directory: Path, chance: random.Random) -> dict[str, Any]:
    """One model directory, its earlier content replaced; the configuration as it was meant, for a report."""
    parts: dict[str, Callable[[], bytes]] = {
        "model.safetensors": lambda: bent_header(chance),
        "model.safetensors.index.json": lambda: bent_index(chance),
    }
    config = bent_config(chance)
    whole_weights = chance.randrange(3) > 0  # else few inputs would come as far as their configuration
    (directory / "config.json").write_bytes(bent_bytes(chance, json.dumps(config).encode()))
    (directory / "tokenizer.json").write_bytes(b"{}")
    for name, make in parts.items():
        (directory / name).unlink(missing_ok=True)
        if not whole_weights and chance.randrange(2):
            (directory / name).write_bytes(make())
    if whole_weights or not (directory / "model.safetensors").exists():
        header = json.dumps({"w": {"dtype": "BF16", "shape": [50], "data_offsets": [0, 100]}}).encode()
        (directory / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(100))
    return config
