"""Bases and adapters on disk, written by the format's own library."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import safetensors

TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64"}
LORA = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q"], "bias": "none"}
Tensors = Mapping[str, np.ndarray]


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """A tensor as its file holds it; of a bfloat16 the upper half of a float32 is kept."""
    if dtype == "BF16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(values, TYPES[dtype])


def save(path: Path, tensors: Tensors, dtype: str = "F32") -> None:
    """Write a safetensors file."""
    arrays = {name: stored(values, dtype) for name, values in tensors.items()}
    rows = {
        name: safetensors.TensorSpec(
            dtype=TYPES[dtype], shape=values.shape, data_ptr=values.ctypes.data, data_len=values.nbytes
        )
        for name, values in arrays.items()
    }
    path.write_bytes(safetensors.serialize(rows, {"format": "pt"}))


def load(path: Path) -> dict[str, np.ndarray]:
    """Read a safetensors file; bfloat16 comes as the float32 that it is the upper half of."""
    found = {}
    for name, row in safetensors.deserialize(path.read_bytes()):
        if row["dtype"] == "BF16":
            values = (np.frombuffer(row["data"], np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        else:
            values = np.frombuffer(row["data"], TYPES[row["dtype"]])
        found[name] = values.reshape(row["shape"])
    return found


def save_base(directory: Path, *shards: Tensors, dtype: str = "F32", **config: object) -> Path:
    """A model: its configuration, a tokenizer, and one file or several with an index."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"model_type": "qwen2", **config}))
    (directory / "tokenizer.json").write_text("{}")
    if len(shards) == 1:
        save(directory / "model.safetensors", shards[0], dtype)
        return directory
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save(directory / file, tensors, dtype)
        weight_map |= dict.fromkeys(tensors, file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return directory


def save_adapter(directory: Path, tensors: Tensors | None = None, **config: object) -> Path:
    """An adapter as peft saves it."""
    directory.mkdir(parents=True)
    (directory / "adapter_config.json").write_text(json.dumps({**LORA, **config}))
    own = {"base_model.model.model.q.lora_A.weight": np.ones((2, 4)),
           "base_model.model.model.q.lora_B.weight": np.ones((3, 2))}  # fmt: skip
    save(directory / "adapter_model.safetensors", own if tensors is None else tensors)
    return directory


class Disk:
    """What tests write and read."""

    base = staticmethod(save_base)
    adapter = staticmethod(save_adapter)
    save = staticmethod(save)
    load = staticmethod(load)
    numbers: Callable[..., np.ndarray] = staticmethod(
        lambda *shape, seed=0: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    )


@pytest.fixture
def disk() -> type[Disk]:
    return Disk
