"""The decisions about a suite's run, as functions of values: the key of its input, and whether a run may stamp it."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from windlass_testbed.suites import table
from windlass_testbed.suites.table import Suite, readers

FEWEST_OF_LAST = 0.9
"""Fewer items than this share of the last stamp's are no usual number: a folder was lost. Deletions of tests land in
smaller parts; FORCE=1 stamps a greater one."""
CHOOSING = ("PYTEST_ADDOPTS", "WINDLASS_GOLDEN")
"""Variables that leave tests out, or write what they would compare: a run with one of them shows nothing."""
SHOWN_FILES, FOLDER_PARTS = 5, 4


@dataclass(frozen=True, slots=True)
class Input:
    """A suite's input: digests of its files as they lie on the disk, and of what else its outcome depends on."""

    files: Mapping[str, str]
    surroundings: Mapping[str, str]

    @property
    def key(self) -> str:
        """Return the key under which a run of this input is stamped."""
        text = json.dumps([dict(self.files), dict(self.surroundings)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """A run of pytest, as its recorder saw it; `files` are those of the repository that it read."""

    files: tuple[str, ...]
    collected: int
    without_outcome: int
    collection_errors: int
    passed: int
    skipped: int
    failed: int
    summary: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """A run that passed."""

    key: str
    passed_at: float
    passed: int
    summary: str

    def text(self) -> str:
        """Return the stamp's file."""
        return json.dumps(asdict(self))


def files_of(suite: Suite, digests: Mapping[str, str]) -> dict[str, str]:
    """Return the digests of a suite's files among those of the repository."""
    return {file: digest for file, digest in digests.items() if suite.name in readers(file)}


def changed(before: Input, after: Input) -> list[str]:
    """Return the names of files and surroundings that differ between two inputs."""
    return [
        name
        for old, new in ((before.files, after.files), (before.surroundings, after.surroundings))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def obstacle(before: Input, after: Input) -> str:
    """Return why a run that passed cannot be stamped, by its input; empty when nothing speaks against it."""
    if chosen := [name for name in CHOOSING if name in before.surroundings]:
        return f"{_listed(chosen)} is set, which changes what runs"
    if names := changed(before, after):
        return f"its input changed while it ran: {_listed(names)}"
    if missing := [name for name, digest in before.surroundings.items() if not digest]:
        return f"its surroundings are not known: {_listed(missing)}"
    return ""


def fault(suite: Suite, record: Record | None, digests: Mapping[str, str], last: Stamp | None) -> str:
    """Return why a run of pytest that passed cannot be stamped, by its record; empty when nothing speaks against it."""
    if record is None:
        return "pytest left no record"
    if record.collection_errors or record.failed:
        return f"{record.collection_errors} files were not collected, {record.failed} items failed"
    if record.passed == 0:
        return "no item passed"
    if record.without_outcome:
        return f"{record.without_outcome} of {record.collected} collected items have no outcome"
    if last and record.passed < FEWEST_OF_LAST * last.passed:
        return f"{record.passed} items passed, {last.passed} at its last stamp; FORCE=1 stamps the new number"
    read = [file for file in record.files if file in digests and not table.is_in_images_alone(file)]
    unnamed = [file for file in read if suite.name not in readers(file)]
    if unnamed:
        return f"it read files that are no input of it in {table.__file__}: {_listed(unnamed)}"
    return ""


def _listed(names: list[str]) -> str:
    """Return the names, or where there are many, their folders with numbers of files."""
    if len(names) <= SHOWN_FILES:
        return ", ".join(names)
    folders = Counter("/".join(name.split("/")[:FOLDER_PARTS][:-1] or [name]) for name in names)
    return ", ".join(f"{folder} ({number})" for folder, number in sorted(folders.items()))
