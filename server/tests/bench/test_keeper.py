"""The keeper of the benchmarks' engines: nothing of an engine is left, however the benchmark ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S

KEEPER = Path(__file__).resolve().parents[3] / "benchmarks/processes/keeper.py"
ENGINE = """
import os, signal, subprocess, sys, time
STUBBORN = "import os, signal as s; s.signal(s.SIGTERM, s.SIG_IGN); print(os.getpid(), flush=True); s.pause()"
worker = subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=True, stdout=subprocess.PIPE)
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
print(os.getpid(), int(worker.stdout.readline()), flush=True)
signal.pause()
"""
"""An engine whose worker has a session of its own and does not listen."""
BENCHMARK = f"""
import sys
sys.path.insert(0, {str(KEEPER.parent)!r})
import keeper
engine = keeper.start([sys.executable, "-c", sys.argv[1]], patience_s=0.2)
print(engine.pid, flush=True)
sys.exit(engine.wait())
"""
FORKED = f"""
import multiprocessing, sys
sys.path.insert(0, {str(KEEPER.parent)!r})
import keeper

def work(text):
    keeper.keep(patience_s=0.2)
    exec(text)

process = multiprocessing.get_context("fork").Process(target=work, args=(sys.argv[1],))
process.start()
print(process.pid, flush=True)
process.join()
sys.exit(process.exitcode)
"""


@contextlib.contextmanager
def running(program: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A benchmark with its engine; the pidfds of keeper, engine and worker, which know when each has ended."""
    words = [sys.executable, "-c", program, ENGINE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        numbers = [int(process.stdout.readline()), *map(int, process.stdout.readline().split())]
        found = {name: os.pidfd_open(pid) for name, pid in zip(("keeper", "engine", "worker"), numbers, strict=True)}
        try:
            yield process, found
        finally:
            process.kill()
            for one in found.values():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(one, signal.SIGKILL)
                os.close(one)


def have_ended(found: dict[str, int], within_s: float = HANG_S) -> set[str]:
    """Which of them end in that time; returns as soon as all have."""
    ended: set[str] = set()
    while len(ended) < len(found):
        left = {one: name for name, one in found.items() if name not in ended}
        ready = select.select(list(left), [], [], within_s)[0]
        if not ready:
            break
        ended |= {left[one] for one in ready}
    return ended


@pytest.mark.parametrize("program", [BENCHMARK, FORKED], ids=["a command", "a process of its own"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill -9", "SIGTERM"])
def test_nothing_outlives_a_benchmark_that_is_killed(program, number):
    """The benchmark can do nothing, and the worker does not listen."""
    with running(program) as (process, found):
        process.send_signal(number)
        assert have_ended(found) == {"keeper", "engine", "worker"}


@pytest.mark.parametrize("program", [BENCHMARK, FORKED], ids=["a command", "a process of its own"])
def test_nothing_outlives_an_engine_that_ends(program):
    """Its worker would stay, and hold the card's memory; the exit code is the engine's."""
    with running(program) as (process, found):
        signal.pidfd_send_signal(found["engine"], signal.SIGUSR1)
        assert have_ended(found) == {"keeper", "engine", "worker"}
        assert process.wait(HANG_S) == 7


def test_an_engine_does_not_outlive_a_keeper_that_is_killed():
    """The worker of a session of its own is then nobody's: only the engine itself is held to end."""
    with running(BENCHMARK) as (_, found):
        signal.pidfd_send_signal(found["keeper"], signal.SIGKILL)
        assert have_ended({"engine": found["engine"]}) == {"engine"}


def test_a_benchmark_that_has_ended_already_starts_nothing_that_stays():
    """It may be killed between the keeper's start and its first look."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    words = [sys.executable, str(KEEPER), str(gone.pid), "0.2", sys.executable, "-c", "import signal; signal.pause()"]
    assert subprocess.run(words, check=False, timeout=HANG_S).returncode == 128 + signal.SIGTERM


def test_the_keeper_is_the_only_start_of_an_engine():
    """No benchmark starts a process past it; what has no keeper between gets SIGTERM when its parent is killed."""
    root = KEEPER.parents[2]
    starts = {
        str(path.relative_to(root))
        for folder in ("benchmarks", "tests/engine/identity", "tests/card")
        for path in (root / folder).rglob("*.py")
        if any(word in path.read_text() for word in ("subprocess.Popen(", "context.Process(")) and path != KEEPER
    }
    kept = {
        "benchmarks/lookahead/arms.py": "keeper.keep(",
        "tests/engine/identity/crew.py": "keeper.keep(",
        "benchmarks/prefix_offload/engines.py": "keeper.keep(",
    }
    by_signal = dict.fromkeys(
        ("benchmarks/images_on_card/servers.py", "benchmarks/processes/killed.py"), "preexec_fn=keeper.end_with_parent"
    )
    assert starts == {*kept, *by_signal}
    for name, how in (kept | by_signal).items():
        assert how in (root / name).read_text()
