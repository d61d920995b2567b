"""The figures of a run for people."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from hostile_run import Figures

RULES_SHOWN = 60


def table(told: Figures) -> str:
    """The whole summary."""
    return "\n".join(("", *(f"{name:44} {value}" for name, value in _rows(told)), *_rules(told), *_findings(told)))


def _rows(told: Figures) -> Iterator[tuple[str, object]]:
    writes = told.writes or [0]
    yield "tried", f"{told.tried}, of them wrong on purpose {told.wrong}"
    yield "accepted", f"{told.accepted} ({100 * told.accepted // max(1, told.tried)} %)"
    yield "changes of accepted ones", f"{told.edits}, of them refused {told.edits_refused}"
    yield "objects answered for", f"{told.answered}; answers refused by the API server {told.lies_refused}"
    yield "refusals that name no field or no remedy", len(told.complaints)
    yield "never spoken of", len(told.silent)
    yield "longest silent time, s", f"{told.silent_s:.1f}"
    yield "writes per service, p50 / max", f"{statistics.median(writes):.0f} / {max(writes)}"
    yield "late writes", f"{told.late.total()} of {len(told.late)} services"
    yield "the operator's own requests refused", told.own_refused.total()
    yield "reconciles ended with an exception", f"{told.errors:.0f}"
    yield "reconciles that the API server left waiting", told.unanswered
    yield "operator RSS before / after, MiB", f"{told.memory_mib[0]:.0f} / {told.memory_mib[1]:.0f}"
    yield "operator alive", told.alive
    yield "words of Ready", len(told.reasons)
    yield "seconds", f"{told.seconds:.0f}"


def _rules(told: Figures) -> Iterator[str]:
    yield f"\nrefused by {len(told.refused)} rules:"
    for rule, count in told.refused.most_common(RULES_SHOWN):
        yield f"{count:5} {rule}"
    yield "\nthe operator's own requests were refused:"
    yield from (f"{count:5} {words}" for words, count in told.own_refused.most_common(RULES_SHOWN))
    yield "\nReady at the end:"
    for reason, count in told.reasons.most_common():
        yield f"{count:5} {reason}"


def _findings(told: Figures) -> Iterator[str]:
    yield from (f"complaint: {text}" for text in told.complaints)
    yield from (f"silent: {text}" for text in told.silent)
    yield from (f"exception {count} times: {text}" for text, count in told.tracebacks.most_common())
    yield from (f"late: {count} {name}" for name, count in told.late.most_common(10))
