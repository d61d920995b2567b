"""Tiny random decoders in files as other tools write them, and their pass in plain numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

BASE = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "vocab_size": 203,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
LLAMA = BASE | {"architectures": ["LlamaForCausalLM"], "num_key_value_heads": 4, "tie_word_embeddings": False}
QWEN2 = BASE | {"architectures": ["Qwen2ForCausalLM"], "num_key_value_heads": 2, "tie_word_embeddings": True}
QWEN3 = QWEN2 | {"architectures": ["Qwen3ForCausalLM"], "head_dim": 32}


def dims(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Heads, key-value heads, numbers of a head."""
    heads = config["num_attention_heads"]
    return heads, config["num_key_value_heads"], config.get("head_dim") or config["hidden_size"] // heads


def weights_of(config: Mapping[str, Any], seed: int = 0) -> dict[str, Array]:
    """Random weights of a config, as float32 that bfloat16 holds exactly."""
    chance = np.random.default_rng(seed)
    heads, kv_heads, dim = dims(config)
    hidden, middle, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    is_qwen2 = config["architectures"][0] == "Qwen2ForCausalLM"
    weights = {
        "model.embed_tokens.weight": draw(chance, vocabulary, hidden),
        "model.norm.weight": norms(chance, hidden),
    }
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = draw(chance, vocabulary, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, rows in (("q", heads * dim), ("k", kv_heads * dim), ("v", kv_heads * dim)):
            weights[f"{at}self_attn.{name}_proj.weight"] = draw(chance, rows, hidden) * 1.5
            if is_qwen2:
                weights[f"{at}self_attn.{name}_proj.bias"] = draw(chance, rows)
        if config["architectures"][0] == "Qwen3ForCausalLM":
            weights[f"{at}self_attn.q_norm.weight"] = norms(chance, dim)
            weights[f"{at}self_attn.k_norm.weight"] = norms(chance, dim)
        weights[f"{at}self_attn.o_proj.weight"] = draw(chance, hidden, heads * dim)
        weights[f"{at}mlp.gate_proj.weight"] = draw(chance, middle, hidden)
        weights[f"{at}mlp.up_proj.weight"] = draw(chance, middle, hidden)
        weights[f"{at}mlp.down_proj.weight"] = draw(chance, hidden, middle)
        weights[f"{at}input_layernorm.weight"] = norms(chance, hidden)
        weights[f"{at}post_attention_layernorm.weight"] = norms(chance, hidden)
    return {name: as_bfloat16(value) for name, value in weights.items()}


def draw(chance: np.random.Generator, *shape: int) -> Array:
    """Numbers of a spread that keeps a layer's output near that of its input."""
    return chance.normal(0, 1 / math.sqrt(shape[-1]), shape).astype(np.float32)


def norms(chance: np.random.Generator, size: int) -> Array:
    """Weights of a norm, near one."""
    return (1 + 0.1 * chance.normal(size=size)).astype(np.float32)


def as_bfloat16(values: Array) -> Array:
    """The same numbers with bfloat16's digits."""
    return (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def packed(values: Array, kind: str) -> bytes:
    """A tensor's bytes."""
    if kind == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype(np.float16 if kind == "F16" else np.float32).tobytes()


def write_model(
    directory: Path, config: Mapping[str, Any], weights: Mapping[str, Array], kind: str = "BF16", files: int = 1
) -> Path:
    """A model's directory: config.json, and the weights in one file or in several with an index."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    names = [f"model-{number + 1:05}-of-{files:05}.safetensors" for number in range(files)]
    names = ["model.safetensors"] if files == 1 else names
    places = {tensor: names[number % files] for number, tensor in enumerate(weights)}
    if files > 1:
        (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    for name in names:
        write_safetensors(directory / name, {t: v for t, v in weights.items() if places[t] == name}, kind)
    return directory


def write_safetensors(path: Path, weights: Mapping[str, Array], kind: str) -> None:
    """A file of tensors: the header's length, the header, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    at = 0
    for name, values in weights.items():
        parts.append(packed(values, kind))
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def logits_of(config: Mapping[str, Any], weights: Mapping[str, Array], tokens: Sequence[int]) -> Array:
    """The reference: logits of each place in float32, [tokens, vocabulary]."""
    stream = weights["model.embed_tokens.weight"][np.array(tokens)]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        stream = stream + attention(config, weights, at, rms(config, stream, weights[f"{at}input_layernorm.weight"]))
        inputs = rms(config, stream, weights[f"{at}post_attention_layernorm.weight"])
        gate = inputs @ weights[f"{at}mlp.gate_proj.weight"].T
        up = inputs @ weights[f"{at}mlp.up_proj.weight"].T
        stream = stream + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{at}mlp.down_proj.weight"].T
    head = weights["model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"]
    return rms(config, stream, weights["model.norm.weight"]) @ head.T


def rms(config: Mapping[str, Any], stream: Array, weight: Array) -> Array:
    """Root-mean-square norm over the last axis."""
    return stream / np.sqrt((stream * stream).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight


def attention(config: Mapping[str, Any], weights: Mapping[str, Array], at: str, inputs: Array) -> Array:
    """Causal attention with grouped heads and rotary positions."""
    heads, kv_heads, dim = dims(config)
    count = len(inputs)

    def part(name: str, parts: int) -> Array:
        out = inputs @ weights[f"{at}self_attn.{name}_proj.weight"].T
        out = out + weights.get(f"{at}self_attn.{name}_proj.bias", np.float32(0))
        return out.reshape(count, parts, dim)

    queries, keys, values = part("q", heads), part("k", kv_heads), part("v", kv_heads)
    if f"{at}self_attn.q_norm.weight" in weights:
        queries = rms(config, queries, weights[f"{at}self_attn.q_norm.weight"])
        keys = rms(config, keys, weights[f"{at}self_attn.k_norm.weight"])
    queries, keys = rotated(config, queries, dim), rotated(config, keys, dim)
    keys, values = (np.repeat(each, heads // kv_heads, axis=1) for each in (keys, values))
    scores = np.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(dim)
    scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", shares, values).reshape(count, heads * dim)
    return mixed @ weights[f"{at}self_attn.o_proj.weight"].T


def rotated(config: Mapping[str, Any], parts: Array, dim: int) -> Array:
    """Heads rotated by their positions, [tokens, heads, dim]."""
    frequencies = config["rope_theta"] ** (-2 * np.arange(dim // 2) / dim)
    angles = np.arange(len(parts))[:, None, None] * frequencies
    low, high = parts[..., : dim // 2], parts[..., dim // 2 :]
    return np.concatenate(
        [low * np.cos(angles) - high * np.sin(angles), high * np.cos(angles) + low * np.sin(angles)], -1
    ).astype(np.float32)
