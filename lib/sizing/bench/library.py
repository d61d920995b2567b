"""Writes `library.json`: the sizes that transformers fills in where a config.json leaves them out.

Run as `python lib/sizing/bench/library.py` where the pinned transformers is installed; nothing else of the package
needs it. Only class defaults are taken, never what a class works out of other settings, and only keys that
the package reads.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.models.auto import modeling_auto

PACKAGE = Path(__file__).parents[1] / "src" / "windlass_sizing" / "model"
MAPPINGS = (
    modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)
TOWERS = (
    *("clip_vision_model", "siglip_vision_model", "siglip2_vision_model", "pixtral", "internvl_vision"),
    *("mllama_vision_model", "qwen2_audio_encoder", "whisper", "gemma3n_text", "gemma4_vision", "gemma4_audio"),
    *("llama4_text", "llama4_vision_model"),
)
WORDS = ("hybrid_override_pattern", "sliding_window_pattern", "moe_layers_enum")  # settings that are text
NOT_SIZES = ("hidden_act", "model_type", "parts")
LONGEST_LIST = 64


def keys_read() -> set[str]:
    """Every word in quotes in the package: a key that no module names is not read."""
    return {word for file in PACKAGE.glob("*.py") for word in re.findall(r'"([a-zA-Z_0-9]+)"', file.read_text())}


def defaults(cls: type[PretrainedConfig], keys: set[str]) -> dict[str, Any]:
    """A configuration class's own defaults."""
    found = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # every configuration class is a dataclass
        value = field.default
        if field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        if field.name in keys and field.name not in NOT_SIZES and _is_size(field.name, value):
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def _is_size(name: str, value: object) -> bool:
    if isinstance(value, list | tuple):
        return 0 < len(value) <= LONGEST_LIST
    return isinstance(value, bool | int | float) or (isinstance(value, str) and name in WORDS)


def declared_parts(cls: type[PretrainedConfig]) -> dict[str, type[PretrainedConfig]]:
    """The nested parts whose class is fixed; others are looked up by the file's own word."""
    parts = cls.sub_configs or {}
    return {name: part for name, part in parts.items() if getattr(part, "model_type", "")}


def parts_of(cls: type[PretrainedConfig]) -> dict[str, str]:
    """The types of nested parts: as declared, else as a default instance has them."""
    parts = {name: part.model_type for name, part in declared_parts(cls).items()}
    try:
        made = cls().to_dict()
    except Exception:  # a class that cannot be made without arguments has no default parts
        return parts
    nested = {name: value.get("model_type") for name, value in made.items() if isinstance(value, dict)}
    return {**{name: kind for name, kind in nested.items() if kind and name.endswith("_config")}, **parts}


def collect(types: list[str]) -> dict[str, dict[str, Any]]:
    """The library's rows, nested types with them."""
    keys, rows = keys_read(), dict[str, dict[str, Any]]()

    def add(cls: type[PretrainedConfig], kind: str) -> None:
        if kind in rows:
            return
        rows[kind] = defaults(cls, keys)
        for part in declared_parts(cls).values():
            add(part, part.model_type)
        parts = {name: found for name, found in parts_of(cls).items() if name in keys}
        if parts:
            rows[kind]["parts"] = parts

    for kind in types:
        add(CONFIG_MAPPING[kind], kind)
    return rows


def main() -> None:
    """Write the file, a line for each type."""
    types = sorted({kind for mapping in MAPPINGS for kind in mapping} | set(TOWERS))
    rows = collect(types)
    lines = (f"{json.dumps(kind)}: {json.dumps(rows[kind], sort_keys=True)}" for kind in sorted(rows))
    (PACKAGE / "library.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
