"""The facts as metrics, in Prometheus' text format, for the facts port. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

METRICS_PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(facts: Mapping[str, Any]) -> str:
    """The text; the names of phases are ours, so nothing in them needs escaping."""
    return "".join(f"{line}\n" for line in _lines(facts))


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from _head("windlass_startup_phase_seconds", "How long each phase of the start took.")
    for row in facts["phases"]:
        yield f'windlass_startup_phase_seconds{{phase="{row["phase"]}"}} {row["seconds"]}'
    startup = facts["startup"]
    yield from _one("windlass_startup_seconds", "From the process's start to serving, or to now.", startup["seconds"])
    yield from _one("windlass_serving", "1 when the engine has answered.", int(facts["phase"] == "serving"))
    preread = startup["preread"]
    yield from _one("windlass_preread_bytes", "Weights that were read ahead.", preread["bytesRead"])
    yield from _one("windlass_preread_total_bytes", "Weights that there are to read ahead.", preread["bytesTotal"])
    yield from _one("windlass_preread_seconds", "How long the reading ahead took.", preread["seconds"])


def _one(name: str, meaning: str, value: float) -> Iterator[str]:
    yield from _head(name, meaning)
    yield f"{name} {value}"


def _head(name: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} gauge"
