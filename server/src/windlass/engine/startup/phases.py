"""The phases of a start: names, where the engine's own steps end in its log, and the line that sums them up. Pure.

The engine tells nobody how far it is but its log. Each step is a row: the text that the pinned engine prints when the
step is over. An engine that words it otherwise loses that step's seconds, never the whole phase's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MODEL, LICENSE, PREFETCH, GROUP, ENGINE = "model", "license", "prefetch", "group", "engine"
FIRST_CHAT = "first-chat"
SERVING, FAILED = "serving", "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the phase `engine`; over when one of these texts is printed."""

    name: str
    ends: tuple[str, ...]


STEPS: tuple[Step, ...] = (
    # Each worker is a process that imports again; only then does it begin to load.
    Step("engine-imports", ("Starting to load model", "Initializing model took")),
    Step("engine-weights", ("Loading weights took", "Model loading took")),
    Step("engine-warmup", ("init engine (profile, create kv cache, warmup model) took",)),
)


def ended(line: str) -> str | None:
    """The name of the step that this line of the engine's log ends."""
    return next((step.name for step in STEPS if any(text in line for text in step.ends)), None)


def summary(facts: Mapping[str, Any]) -> str:
    """One line for the log out of the facts document: the whole, and each phase."""
    rows: Iterable[Mapping[str, Any]] = facts["phases"]
    parts = ", ".join(f"{row['phase']} {row['seconds']} s" for row in rows)
    return f"serving after {facts['startup']['seconds']} s: {parts}"
