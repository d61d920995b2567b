"""In the serving image: what the engine's own functions say of adapters' tensors and files, KV caches and weight files.

    python print_rules.py

The cases are those of `lib/sizing/tests/data/engine/rules.json`. Null stands for a refusal, `auto` for no format of a
KV cache.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

CASES = json.loads((Path(__file__).parents[3] / "lib/sizing/tests/data/engine/rules.json").read_text())


def is_taken(tensor: str) -> bool:
    """Whether the engine reads a tensor of this name out of an adapter."""
    from vllm.lora.utils import is_base_embedding_weights, parse_fine_tuned_lora_name

    name = f"base_model.model.{tensor}"
    return is_base_embedding_weights(name) or _or_none(lambda: parse_fine_tuned_lora_name(name)) is not None


def pickles() -> dict[str, tuple[str, list[str] | None]]:
    """Files of torch.save in hexadecimal digits, and the names that the engine loads of each."""
    import torch

    names = [f"base_model.model.{name}" for name in CASES["tensors"]]
    tensors = {name: torch.zeros(1) for name in names}
    parameters = {name: torch.nn.Parameter(torch.zeros(1).half()) for name in names}
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "plain": (tensors, {}),
        "ordered": (OrderedDict(tensors), {}),
        "of a module": (torch.nn.Linear(1, 1).state_dict(), {}),
        "parameters": (parameters, {}),
        "another protocol": (tensors, {"pickle_protocol": 4}),
        "a date": (tensors | {"saved": date(2026, 1, 1)}, {}),
        "a whole module": (torch.nn.Linear(1, 1), {}),
    }
    return {name: _saved(value, **more) for name, (value, more) in kinds.items()}


def _saved(value: Any, **more: Any) -> tuple[str, list[str] | None]:
    import torch

    content = io.BytesIO()
    torch.save(value, content, **more)
    loaded = _or_none(lambda: torch.load(io.BytesIO(content.getvalue()), map_location="cpu", weights_only=True))
    return content.getvalue().hex(), sorted(loaded) if loaded else None


def kv_cache(settings: dict[str, Any]) -> str:
    """The format of the KV cache where the engine's flag is `auto`."""
    from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig
    from vllm.utils.torch_utils import get_kv_cache_quant_algo_string

    if settings["quant_method"] == "compressed-tensors":
        return "fp8" if CompressedTensorsConfig.from_config(settings).kv_cache_scheme else "auto"
    return get_kv_cache_quant_algo_string(settings) or "auto"


def files(there: list[str], indexes: dict[str, list[str]]) -> list[str] | None:
    """The weight files that the engine reads of a directory."""
    from vllm.config.load import LoadConfig
    from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

    with tempfile.TemporaryDirectory() as folder:
        for name in there:
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).touch()
        for name, named in indexes.items():
            Path(folder, name).write_text(json.dumps({"weight_map": dict(enumerate(named))}))
        loader = DefaultModelLoader(LoadConfig(load_format="auto"))
        found = _or_none(lambda: loader._prepare_weights(folder, None, None, True, None))
        return sorted(Path(name).name for name in found[1]) if found else None


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError):
        return None


def main() -> dict[str, Any]:
    """Each case's answer."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # before the engine is imported
    import vllm.config  # noqa: F401  the engine's modules import each other: this one is the way in

    return {
        "tensors": {name: is_taken(name) for name in CASES["tensors"]},
        "pickles": pickles(),
        "kv": {name: kv_cache(settings) for name, settings in CASES["kv"].items()},
        "files": {name: files(*case) for name, case in CASES["files"].items()},
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()))
