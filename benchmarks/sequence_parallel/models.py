"""The models: shapes of which the engine makes weights up, and a small one with weights of its own for identity."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

LLAMA_3_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336,
    "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
LLAMA_2_7B: dict[str, Any] = {**LLAMA_3_8B, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}
SHAPES = {"llama-3-8b": LLAMA_3_8B, "llama-2-7b": LLAMA_2_7B}
SMALL: dict[str, Any] = {
    **LLAMA_3_8B, "hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 2,
    "intermediate_size": 2816, "vocab_size": 8192, "torch_dtype": "float16",
}  # fmt: skip
SPREAD = 0.04
"""Of the small model's weights: attention then looks at some places more than at others, so a wrong mask shows."""


def shape(name: str, folder: Path) -> Path:
    """A folder with a config.json alone."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(SHAPES[name]))
    return place


def small(folder: Path) -> Path:
    """A model with random weights, the same each time."""
    import torch
    from safetensors.torch import save_file

    place = folder / "small"
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(json.dumps(SMALL))
    chance = torch.Generator().manual_seed(7)

    def weight(*size: int) -> Any:  # noqa: ANN401 - torch is imported late
        return (torch.randn(*size, generator=chance) * SPREAD).half()

    hidden, inner, head = SMALL["hidden_size"], SMALL["intermediate_size"], SMALL["head_dim"]
    queries, keys = SMALL["num_attention_heads"] * head, SMALL["num_key_value_heads"] * head
    found = {"model.embed_tokens.weight": weight(SMALL["vocab_size"], hidden)}
    for number in range(SMALL["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        for name, rows, columns in (
            ("self_attn.q_proj", queries, hidden), ("self_attn.k_proj", keys, hidden),
            ("self_attn.v_proj", keys, hidden), ("self_attn.o_proj", hidden, queries),
            ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner),
        ):  # fmt: skip
            found[f"{layer}.{name}.weight"] = weight(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{layer}.{name}.weight"] = torch.ones(hidden).half()
    found |= {"model.norm.weight": torch.ones(hidden).half(), "lm_head.weight": weight(SMALL["vocab_size"], hidden)}
    save_file(found, place / "model.safetensors", {"format": "pt"})
    return place


def prompt(length: int, seed: int, vocabulary: int = 8000) -> list[int]:
    """Tokens of a prompt that nobody else has."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    return [chance.randrange(10, vocabulary) for _ in range(length)]
