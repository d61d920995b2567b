"""The shapes that engines are timed with, as model directories: random weights and a tokenizer of bytes.

The speed is that of a real model of the shape; the answers are not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

QWEN2_7B: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "rope_theta": 1000000.0,
    "rms_norm_eps": 1e-06,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SMALL = QWEN2_7B | {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 2048,
}  # fmt: skip
END = "<|endoftext|>"
"""transformers adds Qwen's own end to a vocabulary that lacks it, as an id that the model does not have."""
INT4 = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True, "lm_head": False}
"""What a checkpoint says that the engine's own 4-bit kernel (Marlin) serves; its weights need not be there."""


def describe(folder: Path, shape: dict[str, Any]) -> None:
    """Configuration and tokenizer: enough for `--load-format dummy`.

    Each byte of a text is a token, and no other token comes from one. transformers makes a model's own kind of
    tokenizer from vocabulary and merges, whatever the file says besides; that kind too reads every text by its bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(shape))
    signs = byte_signs()
    words = [*signs, *(f"w{number}" for number in range(len(signs), shape["vocab_size"] - 1)), END]
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": bytewise, "post_processor": None, "decoder": bytewise,
        "model": {"type": "BPE", "vocab": {word: number for number, word in enumerate(words)}, "merges": []},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


def byte_signs() -> list[str]:
    """The character that a byte-level vocabulary writes for each byte: its own where it is visible, else one above."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    above = iter(range(0x100, 0x200))
    return [chr(byte if byte in seen else next(above)) for byte in range(256)]


def fill(folder: Path, shape: dict[str, Any], device: str) -> None:
    """The weights at random, bfloat16, a file for each layer; drawn on the device, which is faster on a GPU."""
    import torch
    from safetensors.torch import save_file

    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    values = hidden // shape["num_attention_heads"] * shape["num_key_value_heads"]

    def drawn(*size: int) -> torch.Tensor:
        return (torch.randn(size, device=device, dtype=torch.bfloat16) * 0.02).cpu()

    ones = torch.ones(hidden, dtype=torch.bfloat16)
    sizes = {"q": (hidden, hidden), "k": (values, hidden), "v": (values, hidden), "o": (hidden, hidden)}
    for number in range(shape["num_hidden_layers"]):
        at = f"model.layers.{number}"
        tensors = {f"{at}.self_attn.{name}_proj.weight": drawn(*size) for name, size in sizes.items()}
        tensors |= {f"{at}.self_attn.{name}_proj.bias": drawn(sizes[name][0]) for name in "qkv"}
        tensors |= {f"{at}.mlp.{name}_proj.weight": drawn(inner, hidden) for name in ("gate", "up")}
        tensors[f"{at}.mlp.down_proj.weight"] = drawn(hidden, inner)
        tensors |= {f"{at}.{name}_layernorm.weight": ones.clone() for name in ("input", "post_attention")}
        save_file(tensors, folder / f"model-{number:02}.safetensors", {"format": "pt"})
    ends = {name: drawn(shape["vocab_size"], hidden) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    save_file(ends | {"model.norm.weight": ones.clone()}, folder / "model-ends.safetensors", {"format": "pt"})
