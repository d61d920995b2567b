"""Calibration data: JSON lines with `text` or `messages`, or plain text in paragraphs. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from windlass.errors import UsageError

Messages: TypeAlias = list[dict[str, object]]


def read(data: Path) -> list[str | Messages]:
    """Every sample of a file, or a UsageError with the line that is none."""
    try:
        text = data.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"--data {data} cannot be read: {why}; give a file of text, or of JSON lines") from error
    found = _lines(data, text) if data.suffix in {".jsonl", ".json"} else _paragraphs(text)
    if not found:
        raise UsageError(f"--data {data} holds no text; give a file with some")
    return found


def _paragraphs(text: str) -> list[str | Messages]:
    return [part for part in (part.strip() for part in text.split("\n\n")) if part]


def _lines(data: Path, text: str) -> list[str | Messages]:
    return [_sample(data, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _sample(data: Path, number: int, line: str) -> str | Messages:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if isinstance(row, dict):
        if isinstance(row.get("text"), str):
            return str(row["text"])
        if isinstance(row.get("messages"), list):
            return list(row["messages"])
    raise UsageError(
        f'--data {data} line {number} is no sample; write {{"text": "…"}} or '
        '{"messages": [{"role": "user", "content": "…"}]}'
    )


def samples_of(data: Path, tokenizer: Any, count: int, length: int, seed: int) -> list[list[int]]:  # noqa: ANN401
    """Token lists of at most `length`, drawn by `seed`: a piece of each text, the start of each dialogue."""
    texts, draw = read(data), Random(seed)  # noqa: S311 - samples, no secret
    draw.shuffle(texts)
    found: list[list[int]] = []
    for text in texts:
        if len(found) == count:
            break
        said = text if isinstance(text, str) else tokenizer.apply_chat_template(text, tokenize=False)
        tokens = tokenizer(said)["input_ids"]
        start = draw.randrange(max(1, len(tokens) - length + 1)) if isinstance(text, str) else 0
        if tokens:
            found.append(tokens[start : start + length])
    return found
