"""Ends an engine with all that it started, however the benchmark ends. The one place where benchmarks start engines.

    python keeper.py PARENT PATIENCE_S COMMAND …        or, first thing in a process of one's own:   keeper.keep()

An engine is several processes, and a benchmark that is killed can end none of them. So a keeper stands between the two.
It watches the benchmark by a pidfd, which a kill -9 closes too. As a child subreaper it becomes the parent of whatever
outlives its own parent, so it finds every process of the engine, of other sessions too, without a name.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 40.0
"""`windlass run` gives its engine 30 s."""
POLL_S = 0.1
KILL_S_MAX = 10.0
"""A process that the kernel does not end by then hangs in a driver; nothing else helps."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None, use_errno=True)


def start(command: Sequence[str], *, patience_s: float = PATIENCE_S, **options: Any) -> subprocess.Popen[Any]:  # noqa: ANN401 - Popen's own
    """Start a command behind a keeper: `terminate` and `wait` reach the command, and end all that it started."""
    words = [sys.executable, __file__, str(os.getpid()), str(patience_s), *command]
    return subprocess.Popen(words, start_new_session=True, **options)


def keep(parent: int | None = None, patience_s: float = PATIENCE_S) -> None:
    """Go on as the child of a keeper, which the process that called becomes. Call it before any thread is started."""
    watched = _open(os.getppid() if parent is None else parent)
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    asked = _Asked()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _Asked.NUMBERS)  # none may reach the child's copy of our handlers
    child = os.fork()
    if child == 0:
        asked.forget()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # the keeper itself may be killed
        if watched >= 0:
            os.close(watched)
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os._exit(_kept(child, watched, asked, patience_s))


def end_with_parent() -> None:
    """For `preexec_fn` where no keeper may stand between: a server that ends its own processes when it is told to."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class _Asked:
    """Whether the keeper is to end."""

    NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

    def __init__(self) -> None:
        self.is_set = False
        for number in self.NUMBERS:
            signal.signal(number, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_set = True

    def forget(self) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _open(pid: int) -> int:
    """A pidfd; -1 for a process that has ended."""
    with contextlib.suppress(ProcessLookupError):
        return os.pidfd_open(pid)
    return -1


def _kept(child: int, watched: int, asked: _Asked, patience_s: float) -> int:
    """Wait for the child's end, or for ours; then nothing is left. The exit code."""
    code: int | None = None
    while code is None and not asked.is_set and not _has_ended(watched):
        code = _code_of(child)
    if code is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
        until = time.monotonic() + patience_s
        while code is None and time.monotonic() < until:
            time.sleep(POLL_S)
            code = _code_of(child)
    killed = _end_all()
    return killed.get(child, 128 + signal.SIGKILL) if code is None else code


def _has_ended(watched: int) -> bool:
    if watched < 0:
        return True
    with contextlib.suppress(InterruptedError):
        return bool(select.select([watched], [], [], POLL_S)[0])
    return False


def _code_of(child: int) -> int | None:
    """The child's exit code; None while it runs. Others that ended are buried."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                found = _shell_code(ended[1])
    return found


def _shell_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _end_all() -> dict[int, int]:
    """Kill every process below this one; those whose parent ends become ours, so it takes rounds. Exit codes."""
    codes: dict[int, int] = {}
    until = time.monotonic() + KILL_S_MAX
    while time.monotonic() < until:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                codes[ended[0]] = _shell_code(ended[1])
        except ChildProcessError:
            return codes
        time.sleep(POLL_S / 10)
    return codes


def descendants(pid: int) -> list[int]:
    """All descendants."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                found += [int(word), *descendants(int(word))]
    return found


def main() -> None:
    """Keep a command."""
    parent, patience_s, *command = sys.argv[1:]
    keep(int(parent), float(patience_s))
    os.execvp(command[0], command)  # noqa: S606 - the benchmark's own command


if __name__ == "__main__":
    main()
