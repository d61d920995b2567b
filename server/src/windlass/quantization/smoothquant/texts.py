"""Calibration data: JSON lines with `text` or `messages`, or plain text in paragraphs. Standard library only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeAlias

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
