"""An engine in a process of its own, which is asked one thing at a time and ends with the process that asks."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
import keeper

START_S = 240
ANSWER_S = 240
TOGETHER = 3
"""Engines that start at a time: more take longer than one after another on a card's host of 16 cores."""
_forks = [True]
"""Whether an engine may still be forked: none is any more after one that failed."""
PRELOADED = ["vllm", "vllm.entrypoints.llm", "vllm.v1.engine.llm_engine", "vllm.v1.worker.gpu_worker"]


@dataclass
class Engine:
    """One arm: its name, the words of its LLM, and its variables."""

    name: str
    options: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    in_flight: str = ""
    method: str = "spawn"
    """How its process starts; `forkserver` imports vLLM once for all, and no process has touched the card by then."""
    pipe: Connection | None = None
    process: Any = None
    begun: float = 0.0

    def start(self) -> None:
        """Begin to load; `is_ready` waits for it."""
        if self.method == "forkserver" and not _forks[0]:
            self.method = "spawn"
        context: Any = multiprocessing.get_context(self.method)
        if self.method == "forkserver":
            context.set_forkserver_preload(PRELOADED)
        self.pipe, theirs = context.Pipe()
        self.begun = time.monotonic()
        self.process = context.Process(
            target=_main, args=(self.options, self.variables, self.in_flight, theirs), daemon=False
        )
        self.process.start()
        theirs.close()

    def is_ready(self) -> bool:
        """Whether it came up; what it said otherwise is printed. A forked one that did not is started anew, once."""
        fine, found = self._answer(START_S)
        if not fine and self.method == "forkserver":
            print(f"{self.name} (forked): {found}", flush=True)
            self.end()
            _forks[0] = False
            self.start()
            fine, found = self._answer(START_S)
        if not fine:
            print(f"{self.name}: {found}", flush=True)
        print(f"{self.name}: {'ready' if fine else 'failed'} after {time.monotonic() - self.begun:.0f} s", flush=True)
        return bool(fine)

    def ask(self, word: str, *values: Any) -> Any:  # noqa: ANN401 - whatever the engine answers
        """Ask, and wait for the answer.

        Raises:
            RuntimeError: the engine failed.
        """
        self.send(word, *values)
        return self.answer()

    def send(self, word: str, *values: Any) -> None:  # noqa: ANN401
        """Ask, without waiting."""
        assert self.pipe  # noqa: S101 - started by its maker
        self.pipe.send((word, values))

    def answer(self) -> Any:  # noqa: ANN401
        """The answer to what was sent."""
        fine, found = self._answer(ANSWER_S)
        if not fine:
            raise RuntimeError(f"{self.name}: {found}")
        return found

    def end(self) -> None:
        """Let it go, by pid."""
        if self.process and self.process.is_alive():
            self.process.terminate()
            self.process.join(20)
            self.process.kill()

    def _answer(self, limit_s: float) -> tuple[bool, Any]:
        assert self.pipe  # noqa: S101 - started by its maker
        try:
            return self.pipe.recv() if self.pipe.poll(limit_s) else (False, f"no answer in {limit_s:g} s")
        except (EOFError, ConnectionResetError):
            return False, "its process ended without a word"


def started(engines: Iterable[Engine]) -> list[Engine]:
    """Those that came up, a few at a time."""
    waiting, found = list(engines), []
    while waiting:
        batch, waiting = waiting[:TOGETHER], waiting[TOGETHER:]
        for one in batch:
            one.start()
        found += [one for one in batch if one.is_ready()]
    return found


def _main(options: dict[str, Any], variables: dict[str, str], in_flight: str, pipe: Connection) -> None:
    keeper.keep()  # the engine's own processes end with this one, and this one with the benchmark
    os.environ.update({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", **variables})
    try:
        from arm import Arm

        arm = Arm(options, in_flight)
        pipe.send((True, "ready"))
        while True:
            word, values = pipe.recv()
            pipe.send((True, getattr(arm, word)(*values)))
    except Exception:  # the outermost loop: reported to the process that asks
        pipe.send((False, traceback.format_exc()[-3000:]))
    finally:
        os._exit(0)
