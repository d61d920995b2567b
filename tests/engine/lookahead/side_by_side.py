"""Servers of one test file by name: each is started when it is first asked for, or ahead, and ends with the file."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..serving_engine import ServingEngine


@dataclass(frozen=True)
class Start:
    """A start command, the folders that it sees, and its variables."""

    words: tuple[str, ...]
    mounts: dict[Path, str]
    variables: dict[str, str] = field(default_factory=dict)


class Servers(ExitStack):
    """Those of a table; a context that ends them."""

    def __init__(self, engine: ServingEngine, starts: Mapping[str, Start]) -> None:
        super().__init__()
        self._engine, self._starts = engine, starts
        self._pool = self.enter_context(ThreadPoolExecutor(len(starts)))
        self._begun: dict[str, Future[str]] = {}

    def __exit__(self, *why: Any) -> bool:
        """What still starts could not be ended."""
        for start in self._begun.values():
            start.exception()
        return super().__exit__(*why)

    def begin(self, name: str) -> None:
        """Start it, and do not wait."""
        if name not in self._begun:
            start = self._starts[name]
            server = self._engine.serving(*start.words, mounts=start.mounts, **start.variables)
            self._begun[name] = self._pool.submit(self.enter_context, server)

    def address(self, name: str) -> str:
        """Its address, once it answers."""
        self.begin(name)
        return self._begun[name].result()
