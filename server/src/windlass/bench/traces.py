"""Recorded requests: a JSON line each, `{id, workload, prompt, output, group}`, plain or gzip, in order of arrival."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from windlass.errors import UsageError

KEYS = ("id", "workload", "prompt", "output", "group")


@dataclass(frozen=True, slots=True)
class Trace:
    """One recorded request. `group` names the document or problem that it comes from."""

    id: str
    workload: str
    prompt: str
    output: str
    group: str


def read(path: Path) -> list[Trace]:
    """The requests of a file.

    Raises:
        UsageError: the file is absent or empty, or a line is not a trace.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        why = (error.strerror or "") if isinstance(error, OSError) else ""
        raise UsageError(f"trace file {path} cannot be read: {why.lower() or error}; name one by --traces") from None
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise UsageError(f"trace file {path} holds no requests; name one with a JSON line for each")
    return [_trace(line, f"{path} line {number}") for number, line in lines]


def _trace(line: str, where: str) -> Trace:
    try:
        values = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where} is not JSON ({error}).") from None
    missing = [key for key in KEYS if not isinstance(values, dict) or not isinstance(values.get(key), str)]
    if missing:
        raise UsageError(f"{where} has no text for {', '.join(missing)}; a trace has {', '.join(KEYS)}.")
    return Trace(*(values[key] for key in KEYS))


def workloads(traces: Iterable[Trace]) -> dict[str, list[Trace]]:
    """The requests of each workload, in order of arrival."""
    grouped: dict[str, list[Trace]] = {}
    for trace in traces:
        grouped.setdefault(trace.workload, []).append(trace)
    return grouped


def unshared(warm: Iterable[Trace], measured: Iterable[Trace]) -> list[Trace]:
    """Warm requests whose problem is not measured: neither its group nor its prompt occurs there."""
    measured = list(measured)
    groups, prompts = {trace.group for trace in measured}, {trace.prompt for trace in measured}
    return [trace for trace in warm if trace.group not in groups and trace.prompt not in prompts]


def repeats(traces: Iterable[Trace]) -> set[int]:
    """Places of the requests that came before with the same prompt and output."""
    seen: set[tuple[str, str]] = set()
    found = set()
    for place, trace in enumerate(traces):
        pair = (trace.prompt, trace.output)
        if pair in seen:
            found.add(place)
        seen.add(pair)
    return found
