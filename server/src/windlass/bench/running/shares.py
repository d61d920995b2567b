"""Cuts a file of prompts into a part for each round and load, so that no server gets a prompt twice. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.bench.serving.load import DataSet
from windlass.errors import UsageError

BY_LINE = (DataSet.JSONL, DataSet.DEMO)
SPARE = 3
"""A part has up to this many times the wanted prompts, since vLLM's client skips very short and very long ones."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the file: its text and its number of prompts."""

    text: str
    prompts: int


def shares(dataset: DataSet, text: str, many: int, wanted: int, seed: int) -> list[Share]:
    """A part for each round and load, drawn by the seed."""
    rows = _rows(dataset, text)
    size = min(len(rows) // many, SPARE * wanted)
    if not size:
        raise UsageError(f"--dataset-path holds {len(rows)} prompts for {many} parts; give a larger file")
    random.Random(seed).shuffle(rows)  # noqa: S311 - draws a load, no secret
    return [_share(dataset, rows[at * size : (at + 1) * size]) for at in range(many)]


def _rows(dataset: DataSet, text: str) -> list[object]:
    if dataset in BY_LINE:
        return [json.loads(line) for line in text.splitlines()]
    try:
        found = json.loads(text)
    except ValueError:
        raise UsageError("--dataset-path is no JSON; a ShareGPT file is one list of conversations") from None
    return [row for row in found if isinstance(row, dict) and len(row.get("conversations") or ()) > 1]


def _share(dataset: DataSet, rows: Sequence[object]) -> Share:
    if dataset in BY_LINE:
        return Share("".join(json.dumps(row) + "\n" for row in rows), len(rows))
    return Share(json.dumps(rows) + "\n", len(rows))
