"""Writes what a plan needs on disk before its engine starts. Shell around `resolve`; called by `exec`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from windlass.errors import UsageError
from windlass.launch.model import PlannedFile


def write(files: Iterable[PlannedFile]) -> None:
    """Put the files in place, whole or not at all; UsageError when the directory cannot be written."""
    for file in files:
        path = Path(file.path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, file.text)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error.strerror}; set TMPDIR to a writable directory"
            ) from error


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as draft:
        draft.write(text)
    Path(draft.name).replace(path)
