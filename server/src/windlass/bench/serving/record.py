"""One run as a record: what vLLM's client measured, what the engine counted, and what a reader must know. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from windlass.bench.serving.counters import Counted
from windlass.bench.serving.load import DataSet, Load, Point

REPEATED_MAX = 0.05
"""Share of the prompts' tokens that invented prompts may find in the prefix cache: common first tokens, no more."""
OTHERS_MAX = 0.05
"""Share by which the engine's count of generated tokens may differ from the client's."""


@dataclass(frozen=True, slots=True)
class Record:
    """One point of a benchmark; `measured` are the fields of vLLM's result as they are."""

    load: Load
    point: Point
    measured: Mapping[str, object]
    counted: Counted | None = None

    def number(self, field: str) -> float | None:
        """A field that is a finite number."""
        value = self.measured.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    @property
    def completed(self) -> int:
        """Requests that were answered."""
        return int(self.number("completed") or 0)

    @property
    def failed(self) -> int:
        """Requests that were not."""
        return int(self.number("failed") or 0)

    @property
    def input_throughput(self) -> float | None:
        """Prompt tokens a second, which vLLM's result has no field for."""
        tokens, duration_s = self.number("total_input_tokens"), self.number("duration")
        return tokens / duration_s if tokens is not None and duration_s else None


def warnings(record: Record) -> list[str]:
    """Sentences on what makes the figures other than they look."""
    found = []
    if record.failed:
        found.append(
            f"{record.failed} of {record.failed + record.completed} requests failed; the figures leave them out"
        )
    counted = record.counted
    if counted is None:
        return [*found, "the engine's counters could not be read, so hit rate and acceptance are missing"]
    hit_rate = counted.hit_rate or 0.0
    if record.load.dataset is DataSet.RANDOM and hit_rate > REPEATED_MAX:
        found.append(
            f"random prompts hit the prefix cache at {hit_rate:.0%}: they were sent before (give another --seed), or "
            "the tokenizer makes them alike; time to first token and throughput look better than they are"
        )
    ours, engines = record.number("total_output_tokens"), counted.generation_tokens
    if ours and engines is not None and abs(engines - ours) > OTHERS_MAX * ours:
        found.append(
            f"the engine generated {engines:.0f} tokens and the client received {ours:.0f}: others use the server, or "
            "several replicas answer and one is counted"
        )
    return found
