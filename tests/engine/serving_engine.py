"""What a test asks of an engine, wherever that runs: in the CPU serving image (`conftest`) or here (`local_engine`)."""

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
from windlass_testbed.waiting import wait_until

MARK = "RESULT "
START_TIMEOUT_S = 1200
"""Ends a start that hangs, no slow one: a start takes 30 s of processor, and two at once share two cores."""
ASK_S = 60


class ServingEngine(ABC):
    """Runs Python and servers; paths are the image's: /repo, /data/model, and the mounts that a test names."""

    device = "cpu"
    is_many_at_once = False
    """Whether servers are started side by side: on a card a start costs more than a server."""

    @abstractmethod
    def python(self, *words: str, mounts: dict[Path, str] | None = None, timeout_s: float = 900) -> str:
        """Run Python; return what it printed. The test fails when it fails."""

    def result(self, *words: str, **options: Any) -> Any:
        """Run Python and return the JSON of its last line that begins with RESULT."""
        lines = [line for line in self.python(*words, **options).splitlines() if line.startswith(MARK)]
        return json.loads(lines[-1].removeprefix(MARK))

    @abstractmethod
    def serving(
        self, *words: str, mounts: dict[Path, str] | None = None, **variables: str
    ) -> AbstractContextManager[str]:
        """Run a start command of the image, wait until it answers, and give its address on 127.0.0.1."""

    @abstractmethod
    def output(self, url: str) -> str:
        """Everything that the server at such an address said."""

    @abstractmethod
    def seen(self, folder: Path, target: str) -> str:
        """How a server that has the folder mounted at `target` calls it: for files that hold paths."""


def answers(address: str, is_running: Callable[[], bool]) -> bool:
    """Wait until a server answers; False when it ended first."""

    def outcome() -> str:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health", timeout=ASK_S).is_success:
                return "answers"
        return "" if is_running() else "ended"

    return wait_until(outcome, f"an answer of {address}", START_TIMEOUT_S, 1) == "answers"
