"""Signals after a foreign library's call: a wait of the main thread still ends by them."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HANG_S = 120
PROGRAM = """
import ctypes, os, signal, sys
from contextlib import nullcontext
from windlass.engine import signal_actions

def say(*_):
    print("heard", flush=True)
    os._exit(0)

libc = ctypes.CDLL(None)
libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
signal.signal(signal.SIGTERM, say)
with {guard}:  # as NVRTC: it takes the signal, and puts the handler back by signal(3), which means SA_RESTART
    libc.signal(signal.SIGTERM, libc.signal(signal.SIGTERM, 1))
print("ready", flush=True)
os.read(0, 1)
"""


def waits(pid: int) -> bool:
    """Whether the process sleeps, as it does in its wait alone, and no signal is on its way to it."""
    rows = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    is_clear = int(rows["ShdPnd"], 16) == int(rows["SigPnd"], 16) == 0
    return is_clear and rows["State"].startswith("S")


def outcome(guard: str) -> str:
    """Effect of SIGTERM in the wait: the handler's word, or the wait that goes on."""
    words = [sys.executable, "-c", PROGRAM.format(guard=guard)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin and program.stdout
        try:
            assert program.stdout.readline() == b"ready\n"
            until = time.monotonic() + HANG_S
            while not waits(program.pid) and time.monotonic() < until:
                pass
            program.send_signal(signal.SIGTERM)
            while time.monotonic() < until:
                if select.select([program.stdout], [], [], 0)[0]:
                    return program.stdout.readline().decode().strip()
                if waits(program.pid):
                    return "the wait goes on"
            return "nothing"
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("guard", "expected"), [("signal_actions.kept()", "heard"), ("nullcontext()", "the wait goes on")]
)
def test_a_wait_ends_by_sigterm_after_a_librarys_call(guard, expected):
    """Without the guard the stand-in for the library does what NVRTC does to an idle engine."""
    assert outcome(guard) == expected
