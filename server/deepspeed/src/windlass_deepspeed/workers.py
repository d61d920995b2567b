"""Several engines in one container: each in a process of its own, told what to do over a Unix socket.

The process of the API has no model. A worker is this program again, with a share of the GPUs and its socket's path in
its environment; it connects when its model is loaded, and ends when the socket does. Imports no torch.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from windlass_deepspeed.decoder import Decoder, Start
from windlass_deepspeed.flags import Settings

SOCKET, NUMBER = "WINDLASS_DEEPSPEED_SOCKET", "WINDLASS_DEEPSPEED_WORKER"
VISIBLE, THREADS = "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"
LOOK_S = 0.5
"""How often a process that loads its model is looked at."""
END_S = 10
"""How long a worker may take to end."""
GONE = (EOFError, ConnectionError, BrokenPipeError)


@dataclass(frozen=True, slots=True)
class Described:
    """What an engine says of itself once its model is loaded."""

    context: int
    stop_ids: frozenset[int]
    facts: dict[str, str]


class Remote:
    """A `Decoder` in another process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def join(self, starts: Sequence[Start]) -> Mapping[int, int]:
        """Read the prompts, add their rows, and return the first token of each."""
        return self._ask("join", list(starts))

    def step(self) -> Mapping[int, int]:
        """The next token of every row."""
        return self._ask("step", None)

    def leave(self, keys: Collection[int]) -> None:
        """Give the rows' memory back."""
        self._ask("leave", set(keys))

    def _ask(self, name: str, value: object) -> Mapping[int, int]:
        self._connection.send((name, value))
        tokens: Mapping[int, int] = self._connection.recv()
        return tokens


ORDERS: dict[str, Callable[[Decoder, Any], Mapping[int, int] | None]] = {
    "join": lambda decoder, starts: decoder.join(starts),
    "step": lambda decoder, _: decoder.step(),
    "leave": lambda decoder, keys: decoder.leave(keys),
}


def work(path: str, decoder: Decoder, described: Described) -> None:
    """Do what the process of the API says, until its socket ends."""
    with socket.socket(socket.AF_UNIX) as dialled:
        dialled.connect(path)
        connection = Connection(dialled.detach())
    with connection, suppress(*GONE):
        connection.send(described)
        while True:
            name, value = connection.recv()
            connection.send(ORDERS[name](decoder, value))


@dataclass(slots=True)
class Worker:
    """A worker's process, and its connection once its model is loaded."""

    process: subprocess.Popen[bytes]
    listener: socket.socket
    connection: Connection | None = None

    def loaded(self) -> tuple[Remote, Described] | None:
        """The engine when its model is loaded; None when its process ended before."""
        self.listener.settimeout(LOOK_S)
        while self.process.poll() is None:
            with suppress(TimeoutError):
                self.connection = Connection(self.listener.accept()[0].detach())
                return Remote(self.connection), self.connection.recv()
        return None

    def end(self) -> None:
        """Close the socket, which ends the process; one that does not end is stopped."""
        self.listener.close()
        if self.connection:
            self.connection.close()
        elif self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(argv: Sequence[str], settings: Settings, environment: Mapping[str, str], folder: Path) -> list[Worker]:
    """Start the processes; their sockets lie in `folder`, which nobody else may read."""
    return [
        _start(argv, share(settings, environment, number, _cores()), folder) for number in range(settings.worker_num)
    ]


def _start(argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> Worker:
    path = str(folder / environment[NUMBER])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    command = [sys.executable, "-m", "windlass_deepspeed", "engine", *argv]
    # A session of its own: a signal to our group is ours, and a worker ends when its socket does.
    process = subprocess.Popen(command, env={**environment, SOCKET: path}, start_new_session=True)
    return Worker(process, listener)


def share(settings: Settings, environment: Mapping[str, str], number: int, cores: int) -> dict[str, str]:
    """The environment of a worker: its part of the GPUs, or of the cores on the CPU."""
    each = settings.num_gpus
    ours = {**environment, NUMBER: str(number)}
    if environment.get("WINDLASS_ENGINE") == "cpu":
        ours.setdefault(THREADS, str(max(1, cores // (settings.worker_num * each))))
        return ours
    visible = [name for name in environment.get(VISIBLE, "").split(",") if name]
    names = visible or [str(index) for index in range(settings.worker_num * each)]
    return {**ours, VISIBLE: ",".join(names[number * each : (number + 1) * each])}


def ended(workers: Sequence[Worker]) -> str:
    """A sentence on the first worker whose process ended; empty while all run."""
    codes = ((number, worker.process.poll()) for number, worker in enumerate(workers))
    return next((f"worker {number} ended with exit code {code}" for number, code in codes if code is not None), "")


def _cores() -> int:
    return len(os.sched_getaffinity(0))
