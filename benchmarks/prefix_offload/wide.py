"""A small model with a large KV cache, and an adapter for it: made in a second, with random weights.

A token has as many bytes in the KV cache as Llama-3.1-8B's (128 KiB with eight layers), so copies take as long as its
own, while loading and computing take little. The spread of the weights makes attention choose among the tokens: what a
prompt begins with changes the answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HIDDEN, HEADS, HEAD, INNER, VOCABULARY, RANK = 256, 32, 128, 512, 8192, 8
LAYERS = 8
FIRST, WORDS = 100, 8000
"""Token ids that prompts are made of."""
SPREAD = {"q_proj": 0.125, "k_proj": 0.125, "v_proj": 0.0625, "o_proj": 1 / 64, "gate_proj": 0.0625, "up_proj": 0.0625,
          "down_proj": 0.03, "embed_tokens": 1.0, "lm_head": 0.0625}  # fmt: skip


def token_bytes(layers: int = LAYERS) -> int:
    """Bytes of a token in the KV cache, with 16 bits a number."""
    return layers * HEADS * HEAD * 2 * 2


def model(folder: Path, layers: int = LAYERS) -> Path:
    """The model's folder; it is made once."""
    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "head_dim": HEAD,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
        "intermediate_size": INNER, "vocab_size": VOCABULARY, "max_position_embeddings": 16_384, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "bfloat16",
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    wide = HEADS * HEAD
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCABULARY, HIDDEN), "lm_head": (VOCABULARY, HIDDEN)}
    for layer in range(layers):
        stem = f"model.layers.{layer}"
        shapes |= {f"{stem}.self_attn.{name}": (wide, HIDDEN) for name in ("q_proj", "k_proj", "v_proj")}
        shapes |= {f"{stem}.self_attn.o_proj": (HIDDEN, wide), f"{stem}.mlp.down_proj": (HIDDEN, INNER)}
        shapes |= {f"{stem}.mlp.{name}": (INNER, HIDDEN) for name in ("gate_proj", "up_proj")}
    norms = ["model.norm", *(f"model.layers.{layer}.{name}_layernorm" for layer in range(layers)
             for name in ("input", "post_attention"))]  # fmt: skip
    _write(folder, "model.safetensors", shapes, dict.fromkeys(norms, (HIDDEN,)))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def adapter(folder: Path, layers: int = LAYERS) -> Path:
    """A LoRA adapter's folder, for queries and values."""
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "wide", "r": RANK, "lora_alpha": RANK,
        "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"], "fan_in_fan_out": False,
        "inference_mode": True, "modules_to_save": None,
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        for name in ("q_proj", "v_proj"):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            shapes |= {f"{stem}.lora_A": (RANK, HIDDEN), f"{stem}.lora_B": (HEADS * HEAD, RANK)}
    _write(folder, "adapter_model.safetensors", shapes, {})
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def _write(folder: Path, name: str, shapes: dict[str, tuple[int, ...]], ones: dict[str, tuple[int, ...]]) -> None:
    import torch
    from safetensors.torch import save_file

    chance = torch.Generator().manual_seed(11)
    tensors = {
        f"{key}.weight": torch.empty(shape).normal_(0, SPREAD.get(key.rsplit(".", 1)[-1], 0.05), generator=chance)
        for key, shape in shapes.items()
    }
    tensors |= {f"{key}.weight": torch.ones(shape) for key, shape in ones.items()}
    save_file({key: one.to(torch.bfloat16) for key, one in tensors.items()}, str(folder / name), {"format": "pt"})
