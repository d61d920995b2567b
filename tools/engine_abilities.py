"""Writes what an engine can run as data: `lib/sizing/src/windlass_sizing/quantization/engine.json`.

    python tools/engine_abilities.py RELEASE

Run where the engine is installed: it asks the engine's own classes and imports all of them. The difference between two
records is what a new engine changed. `windlass_sizing.quantization.engine` reads the record. Its `cards` are written by
`tools/engine_cards.py`, which reads them from the wheels.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "lib/sizing/src/windlass_sizing/quantization/engine.json"
TABLES = (
    "MODEL_MAPPING_NAMES", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
)  # fmt: skip


def abilities(release: str) -> dict[str, Any]:
    """The record of the installed engine. Each class of transformers is imported, which takes minutes."""
    own = engines_own()
    through = sorted(set(through_transformers()) - set(own["architectures"]))
    return {"release": release, **own, "transformers": through}


def engines_own() -> dict[str, Any]:
    """What the engine itself says, without transformers."""
    from vllm.config.model import _FLOAT16_NOT_SUPPORTED_MODELS, iter_architecture_defaults
    from vllm.config.quantization import _ONLINE_SHORTHANDS
    from vllm.model_executor.layers.quantization import (
        DEPRECATED_QUANTIZATION_METHODS,
        QuantizationMethods,
    )
    from vllm.model_executor.models.registry import _PREVIOUSLY_SUPPORTED_MODELS, _VLLM_MODELS

    return {
        "methods": {name: needs(name) for name in sorted(QuantizationMethods.__args__)},
        "deprecated": sorted(DEPRECATED_QUANTIZATION_METHODS),
        "online": sorted(_ONLINE_SHORTHANDS),
        "no_float16": sorted(_FLOAT16_NOT_SUPPORTED_MODELS),
        "architectures": sorted(_VLLM_MODELS),
        "suffixes": [suffix for suffix, _ in iter_architecture_defaults()],
        "gone": dict(sorted(_PREVIOUSLY_SUPPORTED_MODELS.items())),
        "adapter_embeddings": dict(adapter_embeddings()),
        "adapter_ignored": dict(adapter_ignored()),
    }


def adapter_embeddings() -> Iterator[tuple[str, list[str]]]:
    """The embedding and head that each class offers to adapters, those of its language model among them.

    Of text models, and of others whose language model the class names.
    """
    from vllm.model_executor.models.registry import ModelRegistry

    for name in sorted(ModelRegistry.models):
        model = loaded(name)
        if model is None or not getattr(model, "supports_lora", False):
            continue
        inner = list(language_models(model)) if getattr(model, "supports_multimodal", False) else []
        if inner or name.endswith("ForCausalLM"):
            yield name, sorted({module for one in (model, *inner) for module in one.embedding_modules or {}})


def adapter_ignored() -> Iterator[tuple[str, list[str]]]:
    """Beginnings of the names of modules whose adapters each class ignores: towers, connectors, draft layers.

    Without --enable-tower-connector-lora. A class that works its own out of a model that it holds is left out.
    """
    from unittest.mock import MagicMock

    from vllm.model_executor.models.registry import ModelRegistry

    for name in sorted(ModelRegistry.models):
        model = loaded(name)
        if model is None or not getattr(model, "supports_lora", False):
            continue
        found = list(getattr(model, "lora_skip_prefixes", None) or ())
        if getattr(model, "supports_multimodal", False) and hasattr(model, "get_mm_mapping"):
            parts = model.get_mm_mapping(MagicMock())
            found += [*parts.tower_model, *parts.connector, *parts.generator]
        if found and all(isinstance(one, str) for one in found):
            yield name, sorted({one.rstrip(".") for one in found})


def loaded(name: str) -> type[Any] | None:
    """The class of an architecture; None where it needs a card's package, or there is none of this name."""
    from vllm.model_executor.models.registry import ModelRegistry

    try:
        return ModelRegistry.models[name].load_model_cls()
    except (ImportError, KeyError, RuntimeError):
        return None


def language_models(model: type[Any]) -> Iterator[type[Any]]:
    """The classes of text models that a multimodal class makes, by its constructor's text: names or the classes."""
    made = next(one for one in model.__mro__ if "__init__" in vars(one))
    text, module = inspect.getsource(made.__init__), sys.modules[made.__module__]
    lists = re.findall(r"architectures=\[([^\]]*)\]", text)
    named = [loaded(name) for names in lists for name in re.findall(r'"([^"]+)"', names)]
    for found in (*named, *(getattr(module, name, None) for name in re.findall(r"\b([A-Z]\w+)\(", text))):
        if found and getattr(found, "supports_lora", False) and not getattr(found, "supports_multimodal", False):
            yield found


def through_transformers() -> Iterator[str]:
    """The classes of transformers that the engine runs without a module of its own, by the engine's own question."""
    import transformers
    from transformers.models.auto import modeling_auto

    tables = [getattr(modeling_auto, table) for table in TABLES]
    for name in sorted({name for table in tables for names in table.values() for name in _listed(names)}):
        if runs(getattr(transformers, name, None)):
            yield name


def runs(model: type[Any] | None) -> bool:
    """Whether the engine takes transformers' class; one that lacks a package here does not run in the engine either."""
    try:
        return model is not None and bool(model.is_backend_compatible() or model._can_set_attn_implementation())
    except ImportError:
        return False


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


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
    cards = {"cards": json.loads(RECORD.read_text())["cards"]}
    RECORD.write_text(json.dumps(abilities(sys.argv[1]) | cards, indent=1) + "\n")
