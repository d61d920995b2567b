"""Hourly usage on disk: the files of a folder, and the folding of journals into totals of an hour.

`2026-11-25T12.7.log` is the seventh journal of its writer: it has a line for each answered request of that hour.
`2026-11-25T12.json` has the hour's totals, and in `folded` the number of the last journal that the totals include.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from windlass.front.usage.counters import Place, Total
from windlass.front.usage.read import Tokens

HOUR_S = 3600
log = logging.getLogger("windlass.usage.hours")
HOURS_KEPT = 35 * 24
PLACES_MAX = 1000
"""Pairs of key and model in an hour; requests of further pairs count under their key and the model OTHER."""
OTHER = "(other)"
NAME_MAX = 256
JOURNAL = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)\.(\d{1,15})\.log")
WRITER = re.compile(r"[0-9a-f]{32}")
HOUR = re.compile(r"(\d{4}-\d\d-\d\dT\d\d)\.json")


@dataclass(slots=True)
class Hour:
    """The totals of an hour."""

    folded: int = 0
    totals: dict[Place, Total] = field(default_factory=dict)

    def add(self, key: str, model: str, tokens: Tokens, *, estimated: bool) -> None:
        """Count one more request."""
        place = (key, model[:NAME_MAX])
        if place not in self.totals and len(self.totals) >= PLACES_MAX:
            place = (key, OTHER)
        self.totals.setdefault(place, Total()).add(tokens, estimated=estimated)

    def rows(self) -> list[dict[str, Any]]:
        """The totals as rows for JSON."""
        return [{"key": key, "model": model, **asdict(total)} for (key, model), total in sorted(self.totals.items())]


@dataclass(frozen=True, slots=True, order=True)
class Journal:
    """A journal by its number and its hour."""

    number: int
    hour: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.hour}.{self.number}.log"


def hour_of(seconds: float) -> str:
    """The hour in UTC of a time since 1970."""
    return _hour(int(seconds // HOUR_S))


@lru_cache(4)
def _hour(number: int) -> str:
    return datetime.fromtimestamp(number * HOUR_S, UTC).strftime("%Y-%m-%dT%H")


def journals(folder: Path) -> list[Journal]:
    """The journals of a folder, the oldest first."""
    found = (JOURNAL.fullmatch(name) for name in _names(folder))
    return sorted(Journal(int(match[2]), match[1]) for match in found if match)


def hours(folder: Path) -> list[str]:
    """The hours of a folder that have totals, the oldest first."""
    return sorted(match[1] for name in _names(folder) if (match := HOUR.fullmatch(name)))


def line(key: str, model: str, tokens: Tokens, *, estimated: bool) -> bytes:
    """A record as a line. The newline comes first, so a line that a full disk cuts short does not spoil the next."""
    row = (key, model[:NAME_MAX], tokens.in_, tokens.out, tokens.cached, int(estimated))
    return b"\n" + json.dumps(row, separators=(",", ":")).encode()


def read_hour(folder: Path, hour: str) -> Hour:
    """The totals of an hour; empty ones when there is no file."""
    try:
        document = json.loads((folder / f"{hour}.json").read_bytes())
    except FileNotFoundError:
        return Hour()
    totals = {(row.pop("key"), row.pop("model")): Total(**row) for row in document["rows"]}
    return Hour(document["folded"], totals)


def sound_hour(folder: Path, hour: str) -> Hour:
    """The totals of an hour, for the process that writes them; an unreadable file is renamed to `.broken`."""
    try:
        return read_hour(folder, hour)
    except (ValueError, LookupError, TypeError) as error:
        path = folder / f"{hour}.json"
        log.error("windlass: totals of usage in %s cannot be read and are put aside: %s", path, error)
        path.replace(path.with_suffix(".broken"))
        return Hour()


def replay(data: bytes, into: Hour) -> None:
    """Add a journal's records to an hour, without lines that were cut short."""
    for text in data.splitlines():
        with suppress(ValueError):
            key, model, in_, out, cached, estimated = json.loads(text)
            into.add(key, model, Tokens(in_, out, cached), estimated=bool(estimated))


def fold(folder: Path, journal: Journal) -> None:
    """Add a journal to its hour. The journal counts once, however often the process is killed in between."""
    hour, path = sound_hour(folder, journal.hour), folder / journal.name
    if journal.number > hour.folded:
        replay(path.read_bytes(), hour)
        hour.folded = journal.number
        _write(folder / f"{journal.hour}.json", json.dumps({"folded": hour.folded, "rows": hour.rows()}))
    path.unlink()


def prune(folder: Path) -> None:
    """Delete the oldest hours beyond HOURS_KEPT."""
    for hour in hours(folder)[:-HOURS_KEPT]:
        (folder / f"{hour}.json").unlink(missing_ok=True)


def records(root: Path, first: str = "", last: str = "") -> Iterator[dict[str, Any]]:
    """The records of all writers from the first hour to the last; other processes may write meanwhile.

    Journals are read before totals. A journal that is folded in between is in the totals, whose number leaves it out.
    """
    for folder in writers(root):
        logs = [(journal, _bytes(folder / journal.name)) for journal in journals(folder)]
        for name in sorted({*hours(folder), *(journal.hour for journal, _ in logs)}):
            if (first and name < first) or (last and name > last):
                continue
            hour = read_hour(folder, name)
            for journal, data in logs:
                if journal.hour == name and journal.number > hour.folded:
                    replay(data, hour)
            yield from ({"writer": folder.name, "hour": name, **row} for row in hour.rows())


def writers(root: Path) -> list[Path]:
    """The folders of all writers, without folders of others such as a volume's `lost+found`."""
    return sorted(path for path in root.iterdir() if WRITER.fullmatch(path.name)) if root.is_dir() else []


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # folded since
        return b""


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
