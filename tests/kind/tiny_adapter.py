"""Writes a LoRA adapter for the demo's model as training leaves it: a configuration and random weights, seeded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from windlass.engine.adapters.tensor_file import Tensor, header

RANK, ALPHA = 8, 64
MODULES = {"q_proj": "hidden_size", "v_proj": "kv_size"}


def make(folder: Path, base: Path, named: str) -> None:
    """An adapter of attention's queries and values for the model in `base`; `named` is what it calls its base."""
    sizes = json.loads((base / "config.json").read_text())
    sizes["kv_size"] = sizes["hidden_size"] // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    draw = np.random.default_rng(7)
    arrays: dict[str, np.ndarray] = {}
    for layer in range(sizes["num_hidden_layers"]):
        for module, size in MODULES.items():
            stem = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            arrays[f"{stem}.lora_A.weight"] = draw.normal(0, 0.05, (RANK, sizes["hidden_size"])).astype(np.float32)
            arrays[f"{stem}.lora_B.weight"] = draw.normal(0, 0.05, (sizes[size], RANK)).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = [Tensor(name, "F32", array.shape, 0, array.nbytes) for name, array in arrays.items()]
    body = header(tensors) + b"".join(array.tobytes() for array in arrays.values())
    (folder / "adapter_model.safetensors").write_bytes(body)
    said = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": named, "r": RANK}
    said |= {"lora_alpha": ALPHA, "lora_dropout": 0.0, "bias": "none", "target_modules": list(MODULES)}
    (folder / "adapter_config.json").write_text(json.dumps(said, indent=1))
    for place in (folder, folder.parent, *folder.iterdir()):
        place.chmod(0o755)  # the server is no root
