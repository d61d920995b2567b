"""Reads JSON lines for vLLM's client where pandas is not installed, as the serving images are.

vLLM asks pandas for three things: `read_json(path_or_buf=, lines=True)`, the columns, and the rows as dictionaries.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PANDAS = "pandas"
DATASETS = "vllm.benchmarks.datasets.datasets"


class Row(dict[str, object]):
    """One line as pandas' row."""

    def to_dict(self) -> dict[str, object]:
        """Return the reader itself, as pandas does."""
        return dict(self)


class Lines:
    """A file with one JSON object a line."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self.columns = list(dict.fromkeys(name for row in rows for name in row))

    def iterrows(self) -> Iterator[tuple[int, Row]]:
        """Each line with its number."""
        return enumerate(self._rows)


def read_json(path_or_buf: str, lines: bool) -> Lines:
    """Open a file of JSON lines; other formats are refused."""
    if not lines:
        raise ValueError("windlass reads JSON lines only; install pandas for other files")
    text = Path(path_or_buf).read_text(encoding="utf-8")
    return Lines([Row(json.loads(line)) for line in text.splitlines() if line.strip()])


def stand_in(name: str = DATASETS) -> None:
    """Give vLLM's data sets this reader where they have no pandas."""
    datasets = importlib.import_module(name)
    if importlib.util.find_spec(PANDAS) is None:
        reader = ModuleType("windlass_lines")
        reader.read_json = read_json  # type: ignore[attr-defined]
        datasets.pd = reader  # type: ignore[attr-defined]
