"""Holds the installed engine to the record of our integration points: for `windlass doctor --engine` and each start.

Reads files and imports nothing of the engine. The record, `record.json`, is written from the release that we are
built for: `python -m windlass.engine.integrations.release FOLDER_OF_VLLM RELEASE`.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windlass.engine.integrations.points import ENGINE, Read, Verdict, compare, points, registered, signatures
from windlass.errors import UsageError

RECORD = Path(__file__).with_name("record.json")
OURS = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Record:
    """The release that we are built for, what it has at each place, and which module of ours uses it."""

    release: str
    places: dict[str, str]
    used_by: dict[str, str]
    parsers: dict[str, list[str]]
    """The names of its parsers, of `tools` and of `reasoning`."""


def record() -> Record:
    """The record that this distribution brings."""
    found = json.loads(RECORD.read_text())
    return Record(found["release"], found["places"], found["used_by"], found["parsers"])


def sources() -> dict[str, str]:
    """Our own modules and their text."""
    files = [file for file in OURS.rglob("*.py") if "__pycache__" not in file.parts]
    return {".".join(file.relative_to(OURS.parent).with_suffix("").parts): file.read_text() for file in files}


def installed() -> Path | None:
    """The folder that holds the installed engine; None when there is none."""
    spec = importlib.util.find_spec(ENGINE)
    return Path(spec.origin).parents[1] if spec and spec.origin else None


def reader(folder: Path) -> Read:
    """Reads modules below a folder."""

    def read(module: str) -> str | None:
        place = folder.joinpath(*module.split("."))
        files = (place.with_suffix(".py"), place / "__init__.py")
        return next((file.read_text(errors="replace") for file in files if file.is_file()), None)

    return read


def verdicts(folder: Path | None = None) -> tuple[Verdict, ...]:
    """Every integration point in an engine's folder, or in the installed one; UsageError when there is none."""
    place = folder or installed()
    if place is None or not (place / ENGINE / "__init__.py").is_file():
        raise UsageError(f"{folder or 'this Python'} has no vLLM; run in the serving image, or name the folder of one")
    known = record()
    return compare(known.places, signatures(known.places, reader(place)), known.used_by)


def mismatch(version: str) -> str:
    """Why an engine of another release cannot be served with our plug-ins; empty when every place is there."""
    known = record()
    if version in ("", known.release):
        return ""
    gone = [row for row in verdicts() if row.is_gone]
    if not gone:
        return ""
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return (
        f"vLLM {version} lacks {gone[0].place.replace(':', '.')}{more}, which windlass needs; "
        f"take vLLM {known.release}, or see `windlass doctor --engine`"
    )


def write(words: Sequence[str]) -> None:
    """Write the record anew from a folder that holds vLLM of a release."""
    folder, release = words
    used = points(sources())
    places = signatures(used, reader(Path(folder)))
    found = {
        "release": release,
        "places": places,
        "used_by": {place: used[place] for place in places},
        "parsers": registered(reader(Path(folder))),
    }
    RECORD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write(sys.argv[1:])
