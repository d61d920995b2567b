"""In the serving image: what the engine itself makes of a model's configuration, and on which cards it would run.

    python print_model_configs.py '{"NAME": ["float16", "bfloat16"], …}'

Each named configuration of `lib/sizing/tests/data/models.json` becomes the engine's own `ModelConfig`, once for each
number format, all in one process: by itself the engine starts a Python for each architecture, which imports the engine
again for ten seconds of a processor.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from print_abilities import CAPABILITIES, has

DATA = Path(__file__).parents[3] / "lib/sizing/tests/data/models.json"
KINDS = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SPEECH_SEQ_2_SEQ")
NOT_HERE = "does not recognize this architecture"
"""Of a checkpoint that brings the class of its configuration: that file is not in the record."""
NOT_CREATED = (ImportError, OSError, AttributeError, KeyError, TypeError, AssertionError, RuntimeError)
"""What a package, a file or a key that is missing here ends in. The engine's own refusals are `ValueError`s."""


def architecture(config: dict[str, Any]) -> list[str]:
    """The class that a saved checkpoint of this model type names, where the configuration names none."""
    from transformers.models.auto import modeling_auto

    tables = [getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES") for kind in KINDS]
    named = next((table[config["model_type"]] for table in tables if config["model_type"] in table), None)
    return config.get("architectures") or ([named] if isinstance(named, str) else [])


def files(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What lies in the directory: ModelOpt writes its settings into a file of their own, the record into one."""
    settings = config.get("quantization_config") or {}
    if "quantization" not in settings:
        return {"config.json": config}
    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    return {"config.json": plain, "hf_quant_config.json": {"producer": {"name": "modelopt"}, **settings}}


def model_config(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The engine's own reading of a directory with this configuration."""
    from vllm.config import ModelConfig

    with tempfile.TemporaryDirectory() as folder:
        for name, text in files(config).items():
            Path(folder, name).write_text(json.dumps(text))
        read = ModelConfig(model=folder, dtype=dtype, skip_tokenizer_init=True)
    dtype = str(read.dtype).removeprefix("torch.")
    return {
        "architecture": read.architecture,
        "dtype": dtype,
        "maxModelLen": read.max_model_len,
        "quantization": read.quantization,
        "cards": [capability for capability in CAPABILITIES if runs(read.quantization, capability, dtype)],
    }


def runs(method: str | None, capability: int, dtype: str) -> bool:
    """By the engine's classes, as its `_get_quantization_config` compares them."""
    import torch
    from vllm.model_executor.layers.quantization import get_quantization_config

    if not has(capability, getattr(torch, dtype)):
        return False
    if method is None:
        return True
    config = object.__new__(get_quantization_config(method))
    formats = type(config).get_supported_act_dtypes.__get__(config)()
    return capability >= config.get_min_capability() and getattr(torch, dtype) in formats


def read(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The reading, the engine's refusal, or what kept it from being created."""
    try:
        return model_config(config, dtype)
    except NOT_CREATED as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"notCreated": f"{type(error).__name__}: {error}"[:300], "where": f"{where.filename}:{where.lineno}"}
    except ValueError as error:
        return {"notCreated" if NOT_HERE in str(error) else "refused": str(error)[:300]}


def look_here() -> None:
    """Let the registry ask a model's class in this process."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda look: look()


def main(asked: dict[str, list[str]]) -> dict[str, Any]:
    """For each model the configuration's class, and a reading for each number format."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # before the engine is imported
    look_here()
    configs = {row["name"]: row["config"] for row in json.loads(DATA.read_text())}
    found = {}
    for name, dtypes in asked.items():
        print(name, file=sys.stderr, flush=True)
        config = configs[name] | {"architectures": architecture(configs[name])}
        readings = {dtype: read(config, dtype) for dtype in dtypes}
        found[name] = {"architectures": config["architectures"], "readings": readings}
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(json.loads(sys.argv[1]))))
