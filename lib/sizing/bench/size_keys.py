"""Writes `size_keys.json`: the whole numbers of a configuration on which the number of its model's parameters depends.

Run as `make size-keys ENGINE=python` where the pinned engine is installed. Each class of transformers is built small on
the meta device, once as it is and once for each key with another value; a key that changes the number of parameters is
one. The engine's own classes are read instead: a key whose value reaches a layer's sizes is one. No list by hand.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import sys
import typing
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

RECORD = Path(__file__).parents[1] / "src" / "windlass_sizing" / "model" / "size_keys.json"
LAYERS, OTHER = 4, 24  # of the small model; the value of a key that has none
SINKS = ("Linear", "Embedding", "Conv1d", "Parameter", "empty")
"""Parts of the names of what a class makes its weights with."""


def of_transformers() -> Iterator[tuple[str, list[str]]]:
    """The keys of each class that transformers builds a decoder of."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    for model_type in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        cls = CONFIG_MAPPING[model_type]
        base = _count(cls)
        print(model_type, base, file=sys.stderr, flush=True)
        if base is None:
            continue
        changed = ((key, _count(cls, **{key: value})) for key, value in whole_numbers(cls))
        found = sorted(key for key, params in changed if params not in (None, base))
        if found:
            yield model_type, found


def whole_numbers(cls: type[Any]) -> Iterator[tuple[str, int]]:
    """The keys of a class that hold a whole number, each with another value than its own."""
    for field in dataclasses.fields(cls):
        kinds = typing.get_args(field.type) or (field.type,)
        if int in kinds and bool not in kinds:
            own = field.default if isinstance(field.default, int) and not isinstance(field.default, bool) else 0
            yield field.name, 2 * own if own > 0 else OTHER


def _count(cls: type[Any], **keys: int) -> int | None:
    """Parameters of a small model of this class; None where there is none with these keys."""
    import torch
    from transformers import AutoModelForCausalLM

    for layers in ({"num_hidden_layers": LAYERS}, {}):
        # Whatever a class says of numbers that do not go together.
        with suppress(Exception), torch.device("meta"):
            model = AutoModelForCausalLM.from_config(cls(**layers | keys))
            return sum(one.numel() for one in model.parameters())
    return None


def of_engine() -> Iterator[tuple[str, list[str]]]:
    """The keys of the configurations that the engine has a class of its own for, by its source."""
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    for model_type, name in sorted(_CONFIG_REGISTRY.items()):
        cls = getattr(import_module("vllm.transformers_utils.configs"), name, None)
        keys = set(getattr(cls, "__init__", object).__code__.co_varnames) if hasattr(cls, "__init__") else set()
        found = sorted(keys & _reaching(name))
        if found:
            yield model_type, found


def _reaching(name: str) -> set[str]:
    """Keys whose value reaches a layer's sizes in the modules that speak of this class."""
    import vllm

    root, found = Path(vllm.__file__).parent, set[str]()
    for file in (*root.glob("model_executor/models/*.py"), *root.glob("models/**/*.py")):
        text = file.read_text()
        if name in text:
            found |= _flowing(ast.parse(text))
    return found


def _flowing(tree: ast.Module) -> set[str]:
    """Keys of `config` whose value flows into a call that makes weights, through names and attributes of the file."""
    flows: dict[str, set[str]] = {}
    for _ in range(3):  # a value passes through so many names at most
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                keys = _keys(node.value, flows)
                for target in node.targets:
                    flows.setdefault(ast.unparse(target), set()).update(keys)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    made = (node for node in calls if any(part in ast.unparse(node.func) for part in SINKS))
    return {key for call in made for one in (*call.args, *call.keywords) for key in _keys(one, flows)}


def _keys(node: ast.AST, flows: dict[str, set[str]]) -> set[str]:
    found = set[str]()
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and ast.unparse(one.value).endswith("config"):
            found.add(one.attr)
        elif isinstance(one, ast.Attribute | ast.Name):
            found |= flows.get(ast.unparse(one), set())
    return found


def main() -> None:
    """Write the record, a line for each type."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR"}
    import vllm.config  # noqa: F401  the way into the engine's modules

    rows = dict(of_transformers())
    for model_type, keys in of_engine():
        rows[model_type] = sorted({*rows.get(model_type, ()), *keys})
    versions = {name: metadata.version(name) for name in ("transformers", "vllm")}
    lines = (f"{json.dumps(kind)}: {json.dumps(rows[kind])}" for kind in sorted(rows))
    RECORD.write_text(f'{{"versions": {json.dumps(versions)},\n"types": {{\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
