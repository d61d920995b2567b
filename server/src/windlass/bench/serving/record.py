"""One run as a record: the figures of vLLM's client, the engine's counters, and warnings. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from windlass.bench.serving.counters import Counted
from windlass.bench.serving.load import DataSet, Load, Point

REPEATED_MAX = 0.05
"""Share of the prompts' tokens that may be in the prefix cache beyond what they have in common by their making."""
REPEATING = (DataSet.MULTI_TURN, DataSet.TRACE, DataSet.DEMO)
"""Data sets whose prompts have parts of earlier ones by intent."""
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
        """The field as a number; None unless it is finite."""
        value = self.measured.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        return float(value)

    @property
    def completed(self) -> int:
        """The number of answered requests."""
        return int(self.number("completed") or 0)

    @property
    def failed(self) -> int:
        """The number of failed requests."""
        return int(self.number("failed") or 0)

    @property
    def input_throughput(self) -> float | None:
        """Prompt tokens a second, which vLLM's result has no field for."""
        tokens, duration_s = self.number("total_input_tokens"), self.number("duration")
        return tokens / duration_s if tokens is not None and duration_s else None


def expected_hits(record: Record) -> float:
    """The share of the prompts' tokens that they have in common by their making: template, and shared prefix."""
    load, counted = record.load, record.counted
    asked, sent = record.number("total_input_tokens") or 0.0, (counted and counted.prefix_queries) or 0.0
    if load.dataset in REPEATING:
        return 1.0
    if not asked or not sent:
        return 0.0
    of_template = max(0.0, 1 - asked / sent)
    if load.dataset is not DataSet.SHARED_PREFIX:
        return of_template
    many = record.completed or load.num_prompts
    shared = load.prefix_len * max(0, many - load.num_prefixes)
    return min(1.0, of_template + shared / sent)


def warnings(record: Record) -> list[str]:
    """Warnings: why the figures do not mean what they seem to."""
    found = []
    if record.failed:
        found.append(
            f"{record.failed} of {record.failed + record.completed} requests failed; the figures leave them out"
        )
    counted = record.counted
    if counted is None:
        return [*found, "the engine's counters could not be read, so hit rate and acceptance are missing"]
    expected = expected_hits(record)
    hit_rate = counted.hit_rate
    if hit_rate is not None and hit_rate > expected + REPEATED_MAX:
        found.append(
            f"the prefix cache answered {hit_rate:.0%} of the prompts' tokens, and {expected:.0%} are common to them: "
            "they were sent before (give another --seed, or a file with more prompts), or the tokenizer makes them "
            "alike; time to first token and throughput look better than they are"
        )
    ours, engines = record.number("total_output_tokens"), counted.generation_tokens
    if ours and engines is not None and abs(engines - ours) > OTHERS_MAX * ours:
        found.append(
            f"the engine generated {engines:.0f} tokens and the client received {ours:.0f}: others use the server, or "
            "several replicas answer and one is counted"
        )
    return found
