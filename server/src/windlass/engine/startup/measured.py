"""What the engine says of its own memory, picked out of its log: the operator shows it beside the plan. Pure.

Rows of the pinned engine's wordings; an engine that words it otherwise loses that figure, nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

WEIGHTS_GIB, KV_GIB, KV_TOKENS = "weightsGiB", "kvGiB", "kvTokens"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name in the facts, the sentence that holds it, how its text is read."""

    name: str
    sentence: re.Pattern[str]
    read: Callable[[str], float]


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


FIGURES: tuple[Figure, ...] = (
    Figure(WEIGHTS_GIB, re.compile(r"Model loading took ([\d.]+) GiB memory"), float),
    Figure(KV_GIB, re.compile(r"Available KV cache memory: ([\d.]+) GiB"), float),
    Figure(KV_GIB, re.compile(r"(?:Auto|Explicitly) set \(([\d.]+)/[\d.]+\) GiB for KV cache"), float),
    Figure(KV_TOKENS, re.compile(r"KV cache size: ([\d,]+) tokens"), _whole),
)


def figure(line: str) -> tuple[str, float] | None:
    """The name and value of the figure in this line of the engine's log, per GPU; None for any other line."""
    for row in FIGURES:
        found = row.sentence.search(line)
        if found:
            try:
                return row.name, row.read(found[1])
            except ValueError:
                return None
    return None
