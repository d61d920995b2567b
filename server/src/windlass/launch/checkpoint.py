"""Reads the marks of a model directory for `probe`: its chat template and its tokenizer's tokens. Decides nothing.

A tokenizer file can be 30 MiB, and only its list of added tokens counts; the list stands near the file's beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from windlass_sizing.files import documents

from windlass.errors import ModelError
from windlass.launch.marks import Marks
from windlass.startup.model_json import read_json

TEMPLATE = "chat_template.jinja"
TEKKEN = "tekken.json"
TEMPLATE_BYTES_MAX = 1 << 20
"""The largest published templates are near 30 KiB."""
TOKENIZER_HEAD_BYTES = 4 << 20
"""Of tokenizer.json; lists of 2,000 added tokens are near 0.5 MiB."""
TEKKEN_BYTES_MAX = 64 << 20
"""Of tekken.json, whose list of special tokens may stand at its end; the largest published ones are near 20 MiB."""
FOR_TOOLS, DEFAULT = "tool_use", "default"
"""Names of templates where a tokenizer has several."""


def marks(directory: Path, architecture: str, template: Path | None = None) -> Marks:
    """The marks of a model directory; `template` is a file that takes the place of its own template."""
    tokenizer = read_json(directory / "tokenizer_config.json")
    file = next((path for path in (template, directory / TEMPLATE) if path and path.is_file()), None)
    inside = _text(file) if file else _inside(directory, tokenizer)
    return Marks(
        architecture,
        template=_chosen(inside, FOR_TOOLS, DEFAULT),
        plain=_chosen(inside, DEFAULT, FOR_TOOLS),
        file=str(file or ""),
        tokens=frozenset(_tokens(directory, tokenizer)),
        is_mistral_format=_is_mistral_format(directory),
    )


def _is_mistral_format(directory: Path) -> bool:
    """As the engine decides it; older files than tekken.json may have no token for tool calls."""
    return (directory / TEKKEN).is_file() and any(directory.glob("consolidated*.safetensors"))


def _inside(directory: Path, tokenizer: dict[str, object]) -> object:
    """A template inside another file: the processor's, which the engine asks first, or the tokenizer's own."""
    processor = read_json(directory / "chat_template.json").get("chat_template")
    return processor or tokenizer.get("chat_template")


def _chosen(template: object, *names: str) -> str:
    """The template by the first of these names, where there are several by name."""
    if isinstance(template, list):
        template = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
    if isinstance(template, dict):
        template = next((found for name in names if (found := template.get(name))), "")
    return template if isinstance(template, str) else ""


def _text(path: Path) -> str:
    try:
        return documents.read(path, TEMPLATE_BYTES_MAX).decode("utf-8", "replace")
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}; check the volume") from error
    except ValueError as error:
        raise ModelError(f"{path} is no chat template: {error}; copy the model again") from error


def _tokens(directory: Path, tokenizer: dict[str, object]) -> Iterable[str]:
    decoder = tokenizer.get("added_tokens_decoder")
    yield from _contents(decoder.values() if isinstance(decoder, dict) else ())
    yield from _contents(_listed(directory / "tokenizer.json", "added_tokens", TOKENIZER_HEAD_BYTES))
    yield from _contents(_listed(directory / TEKKEN, "special_tokens", TEKKEN_BYTES_MAX), "token_str")
    yield from read_json(directory / "added_tokens.json")


def _contents(tokens: Iterable[object], name: str = "content") -> Iterable[str]:
    for token in tokens:
        if isinstance(token, dict) and isinstance(content := token.get(name), str):
            yield content


def _listed(path: Path, name: str, most: int) -> list[object]:
    """A list of a file's first bytes, by its name; empty when they have none. The engine says what is wrong with it."""
    try:
        with documents.opened(path) as file:
            _, key, rest = file.read(most).decode("utf-8", "replace").partition(f'"{name}":')
        found, _ = json.JSONDecoder().raw_decode(rest.lstrip()) if key else ([], 0)
    except (OSError, ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
