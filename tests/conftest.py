"""How the tests spread over worker processes (`-n 2 --dist loadfile`).

File by file; but the cluster is one, so its scenarios stay together, and a server that several files talk to is started
once. Simulated pods get an address of their own in each worker, since their port is fixed.

A test that measures seconds is marked `alone`. It waits until the other worker's test is over, and the other worker
begins no test before it ends.
"""

import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
os.environ.setdefault("WINDLASS_BENCH_POD_IP", f"127.0.0.{2 + int(WORKER)}")
TOGETHER = {
    "the cluster": ("tests/kind/",),
    "the server `short`": (
        *(f"tests/engine/api/test_{name}.py" for name in ("openapi_fuzz", "sampling", "module_command")),
        "tests/engine/bench/test_bench_serve.py",
    ),
    "the server `keyed`": tuple(f"tests/engine/api/test_{name}.py" for name in ("keys", "routes", "server")),
    "the server `busy`": ("tests/engine/api/test_load.py", "tests/engine/processes/test_hang.py"),
}


class ByPlace(LoadScopeScheduling):
    """What stays in one process; marks would say it too, but xdist 3.8 cannot read its groups from pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name, starts in TOGETHER.items() if file.startswith(starts)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPlace:
    return ByPlace(config, log)


def is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


class MachineLock:
    """A readers-writer lock between the workers: tests share it, a test marked `alone` holds it exclusively.

    It locks this file and its folder, so a run leaves no lock file behind. A process that ends loses its locks.
    """

    def __init__(self) -> None:
        folder = Path(__file__).parent
        self._queue, self._machine = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (folder, __file__))
        self._is_exclusive = False

    def acquire(self, item: pytest.Item) -> None:
        """Every test passes the queue; the one that waits for an exclusive lock stays in it, so no test overtakes."""
        if not self._is_exclusive:
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            fcntl.flock(self._machine, fcntl.LOCK_EX if is_alone(item) else fcntl.LOCK_SH)
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        self._is_exclusive = is_alone(item)

    def release(self, following: pytest.Item | None) -> None:
        """Keep an exclusive lock for the next test when that one is `alone` too: the two wait once."""
        self._is_exclusive = self._is_exclusive and is_alone(following)
        if not self._is_exclusive:
            fcntl.flock(self._machine, fcntl.LOCK_UN)


MACHINE = MachineLock()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    MACHINE.acquire(item)
    try:
        return (yield)
    finally:
        MACHINE.release(nextitem)
