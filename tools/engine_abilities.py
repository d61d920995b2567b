"""Prints what an engine can run as data.

    python tools/engine_abilities.py RELEASE > sizing/src/windlass_sizing/engine.json

Run where the engine is installed: it asks the engine's own classes and imports all of them. `windlass_sizing.engine`
reads the record; the difference between two records is what a new engine changed.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def abilities(release: str) -> dict[str, Any]:
    """The record of the installed engine."""
    from vllm.config.model import _FLOAT16_NOT_SUPPORTED_MODELS
    from vllm.config.quantization import _ONLINE_SHORTHANDS
    from vllm.model_executor.layers.quantization import (
        DEPRECATED_QUANTIZATION_METHODS,
        QuantizationMethods,
    )
    from vllm.model_executor.models.registry import _PREVIOUSLY_SUPPORTED_MODELS, _VLLM_MODELS

    return {
        "release": release,
        "methods": {name: needs(name) for name in sorted(QuantizationMethods.__args__)},
        "deprecated": sorted(DEPRECATED_QUANTIZATION_METHODS),
        "online": sorted(_ONLINE_SHORTHANDS),
        "no_float16": sorted(_FLOAT16_NOT_SUPPORTED_MODELS),
        "architectures": sorted(_VLLM_MODELS),
        "gone": dict(sorted(_PREVIOUSLY_SUPPORTED_MODELS.items())),
    }


def needs(name: str) -> dict[str, Any]:
    """What the engine's class of one method asks of a card and of the number format."""
    from vllm.model_executor.layers.quantization import get_quantization_config

    found = get_quantization_config(name)
    # Some classes answer as classes, some as instances; none of them looks at the instance.
    dtypes = found.get_supported_act_dtypes
    listed = dtypes() if getattr(dtypes, "__self__", None) else dtypes(object.__new__(found))
    named = (str(dtype).removeprefix("torch.") for dtype in listed)
    return {
        "capability": found.get_min_capability(),
        "dtypes": sorted(dtype for dtype in named if dtype in ("bfloat16", "float16", "float32")),
    }


if __name__ == "__main__":
    print(json.dumps(abilities(sys.argv[1]), indent=1))
