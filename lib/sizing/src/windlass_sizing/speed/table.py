"""What was fitted for each card and method, as data: `fitted.json`, which `benchmarks/predictions/fit.py` writes.

Nobody edits the file by hand. It names the runs that its numbers come from, and the errors that were seen on rows that
were not fitted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

FITTED = Path(__file__).with_name("fitted.json")
PLAIN = "none"


@dataclass(frozen=True, slots=True)
class CardSpeed:
    """One card: what it reaches with weights of 16 bits."""

    read_gb_s: float  # weights and KV cache, while decoding
    layer_us: float  # of a decode step, whatever it reads
    row_us: float  # of a decode step and layer, for each request
    prompt_tflops: float  # of a long prompt
    prompt_layer_us: float  # of a step with a prompt, however short
    request_ms: float  # of a request: HTTP, tokens to ids, scheduling


@dataclass(frozen=True, slots=True)
class MethodSpeed:
    """One quantization method, as factors of the card's numbers."""

    read: float = 1.0
    layer: float = 1.0
    row: float = 1.0
    prompt: float = 1.0
    prompt_layer: float = 1.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a card's numbers come from, and by how much they missed rows that were not fitted.

    An error is the share that nine of ten such rows keep; None where there are none.
    """

    runs: tuple[str, ...]
    shapes: tuple[str, ...]
    rows: int
    ms_per_token_error: float | None
    ttft_error: float | None
    requests_error: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """All that was fitted."""

    cards: dict[str, CardSpeed]
    methods: dict[str, MethodSpeed]
    origins: dict[str, Origin]


@cache
def table() -> Table:
    """The fitted table."""
    return read(json.loads(FITTED.read_text(encoding="utf-8")))


def read(document: dict[str, Any]) -> Table:
    """A table from its JSON; keys that begin with an underscore are remarks."""
    return Table(
        {name: CardSpeed(**_known(CardSpeed, row)) for name, row in document["cards"].items()},
        {name: MethodSpeed(**_known(MethodSpeed, row)) for name, row in document["methods"].items()},
        {name: _origin(row["origin"]) for name, row in document["cards"].items()},
    )


def _known(kind: type[Any], row: dict[str, Any]) -> dict[str, float]:
    return {one.name: float(row[one.name]) for one in fields(kind) if one.name in row}


def _origin(row: dict[str, Any]) -> Origin:
    return Origin(**{**row, "runs": tuple(row["runs"]), "shapes": tuple(row["shapes"])})
