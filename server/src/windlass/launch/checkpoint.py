"""Reads the marks of a model directory for `probe`: its chat template and its tokenizer's tokens. Decides nothing.

A tokenizer file can be 30 MiB, and only its list of added tokens counts; the list stands near the file's beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from windlass_sizing.files import documents

from windlass.engine.startup.model_json import read_json
from windlass.errors import ModelError
from windlass.launch.marks import Marks

TEMPLATE = "chat_template.jinja"
ADDITIONAL = "additional_chat_templates"
"""A folder of templates, each by the name of its file, as transformers 5 reads and writes it."""
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
    files = {DEFAULT: template} if template and template.is_file() else template_files(directory)
    texts = {name: _text(file) for name, file in files.items()} or _by_name(_inside(directory, tokenizer))
    for_tools = FOR_TOOLS if FOR_TOOLS in texts else DEFAULT
    return Marks(
        architecture,
        template=texts.get(for_tools, ""),
        plain=texts.get(DEFAULT, ""),
        file=str(files.get(DEFAULT, "")),
        tools_file=str(files.get(for_tools, "")),
        without_default=() if DEFAULT in texts else tuple(sorted(texts)),
        tokens=frozenset(_tokens(directory, tokenizer)),
        is_mistral_format=_is_mistral_format(directory),
    )


def template_files(directory: Path) -> dict[str, Path]:
    """Templates that are files of their own, by name; any goes before all that stand inside other files."""
    files = {file.stem: file for file in sorted((directory / ADDITIONAL).glob("*.jinja"))}
    default = directory / TEMPLATE
    return files | ({DEFAULT: default} if default.is_file() else {})


def _is_mistral_format(directory: Path) -> bool:
    """As the engine decides it; older files than tekken.json may have no token for tool calls."""
    return (directory / TEKKEN).is_file() and any(directory.glob("consolidated*.safetensors"))


def _inside(directory: Path, tokenizer: dict[str, object]) -> object:
    """A template inside another file: the processor's, which the engine asks first, or the tokenizer's own."""
    processor = read_json(directory / "chat_template.json").get("chat_template")
    return processor or tokenizer.get("chat_template")


def _by_name(templates: object) -> dict[str, str]:
    """Templates by name: a list or an object of several, or a text, which is the default."""
    if isinstance(templates, list):
        templates = {one.get("name"): one.get("template") for one in templates if isinstance(one, dict)}
    if not isinstance(templates, dict):
        templates = {DEFAULT: templates}
    return {str(name): text for name, text in templates.items() if text and isinstance(text, str)}


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
