"""What an upgrade did, from what was seen: phases and seconds, the streams of each, pods that were replaced. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Pods = Mapping[str, Mapping[str, str]]
"""Service → uid of each of its pods → its image."""


@dataclass(frozen=True)
class Phase:
    """One step of the run: when it began and ended, in seconds since the epoch, and the pods at its end."""

    name: str
    began: float
    ended: float
    pods: Pods
    leases: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A phase as the table shows it."""

    phase: str
    seconds: float
    started: int
    whole: int
    cut: int
    replaced: Mapping[str, int]
    images: Mapping[str, tuple[str, ...]]


def rows(phases: Sequence[Phase], streams: Iterable[Mapping[str, Any]]) -> list[Row]:
    """A row a phase; a stream belongs to the phase in which it began."""
    streams = list(streams)
    found, before = list[Row](), dict[str, set[str]]()
    for phase in phases:
        of_it = [one for one in streams if phase.began <= one["began"] < phase.ended]
        whole = sum(one["outcome"] == "whole" for one in of_it)
        replaced = {name: len(before[name] - set(pods)) for name, pods in phase.pods.items() if name in before}
        images = {name: tuple(sorted(set(pods.values()))) for name, pods in phase.pods.items()}
        found.append(
            Row(phase.name, phase.ended - phase.began, len(of_it), whole, len(of_it) - whole, replaced, images)
        )
        before = {name: set(pods) for name, pods in phase.pods.items()}
    return found


def texts(streams: Iterable[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Service → how often each text came whole; one text only is what greedy decoding shall give."""
    found: dict[str, Counter[str]] = {}
    for one in streams:
        if one["outcome"] == "whole":
            found.setdefault(one["service"], Counter())[one["text"]] += 1
    return found


def table(found: Iterable[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| phase | seconds | streams started | whole | cut | pods replaced |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in found:
        replaced = ", ".join(f"{name} {count}" for name, count in row.replaced.items() if count) or "none"
        lines.append(f"| {row.phase} | {row.seconds:.0f} | {row.started} | {row.whole} | {row.cut} | {replaced} |")
    return "\n".join(lines)


def lost(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Audit records that were there and are not any more."""
    kept = set(after)
    return [record for record in before if record not in kept]


def as_json(found: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows for a file."""
    return [asdict(row) for row in found]
