"""What the guard counts, as numbers that can be added up over API processes. Pure.

A number's key is its name and its labels, as `("refused", "429")`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from windlass.front.gate import Gate
from windlass.front.limits.replicas import Replicas
from windlass.front.usage.counters import Place, Total

Numbers: TypeAlias = "Counter[tuple[str, ...]]"
"""Whole numbers, but for WAITED_S."""
RUNNING, WAITING, GRANTED, WAITED_S, STOPPING = "running", "waiting", "granted", "waited_s", "stopping"
UNREAD, ENDED, BODIES, REFUSED = "unread_bytes", "readers_ended", "body_bytes", "refused"
USAGE, UNRECORDED, OVER_LIMIT = "usage", "unrecorded", "over_limit"
REPLICAS, ALONE, KEYS_WRONG = "replicas", "alone", "keys_wrong"


def of_gate(gate: Gate) -> Numbers:
    """Places and those who wait."""
    return Counter({
        (RUNNING,): gate.running, (WAITING,): gate.waiting, (GRANTED,): gate.granted,
        (WAITED_S,): gate.waited_s, (STOPPING,): int(gate.is_stopping),
    })  # fmt: skip


def of_replicas(limits: Replicas) -> Numbers:
    """Who holds limits together."""
    return Counter({(REPLICAS,): limits.connected, (ALONE,): limits.alone})


def rows(numbers: Numbers) -> list[list[Any]]:
    """For JSON: the labels of a number, and the number."""
    return [[*key, value] for key, value in numbers.items()]


def of(found: Iterable[list[Any]]) -> Numbers:
    """The numbers of such rows."""
    return Counter({tuple(map(str, key)): value for *key, value in found})


def added(parts: Iterable[Numbers]) -> Numbers:
    """Sums of all processes."""
    sums: Numbers = Counter()
    for part in parts:
        sums.update(part)
    return sums


def labelled(numbers: Numbers, name: str) -> dict[tuple[str, ...], Any]:
    """The numbers of one name by their labels, in order."""
    return {key[1:]: value for key, value in sorted(numbers.items()) if key[0] == name and key[1:]}


def usage(totals: Mapping[Place, Total]) -> Numbers:
    """Usage by key and model."""
    return Counter(
        {(USAGE, *place, name): count for place, total in totals.items() for name, count in asdict(total).items()}
    )


def totals(numbers: Numbers) -> dict[Place, Total]:
    """Usage by key and model, out of numbers."""
    found: dict[Place, Total] = {}
    for (key, model, name), count in labelled(numbers, USAGE).items():
        setattr(found.setdefault((key, model), Total()), name, count)
    return found
