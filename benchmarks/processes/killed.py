"""Counts what is left of two servers after their benchmark was ended: by SIGKILL, then by SIGTERM.

    PYTHONPATH=server/src:lib/base/src:lib/sizing/src python benchmarks/processes/killed.py WORK [--small]

The benchmark is `serving.py`, with a server in float16 and one in fp8, and it is ended while requests run. A server's
processes are those whose environment names its folder, its keeper among them. Prints their number before the signal,
and by the seconds since. It reads no memory of the card.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import keeper

SERVING = Path(__file__).resolve().parents[1] / "quantization/serving.py"
FIRST_PORT, SECOND_PORT = 18501, 18502
COUNTED_AT_S = 1, 2, 5, 10, 20, 30, 45, 60
"""A keeper gives its server 40 s and its processes 10 more."""
START_S_MAX = 300
KEPT_ENVIRONMENT = {"SPT_NOENV": "1"}
"""The engine's processes give themselves titles by setproctitle, which writes over their environment otherwise."""
RUNNING = re.compile(r"^vllm:num_requests_running\{.*\} ([1-9].*)$", re.MULTILINE)


def processes_of(folder: Path) -> int:
    """Processes whose environment names the folder."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += f"{folder}/cache-".encode() in path.read_bytes()
        except OSError:
            continue  # it ended, or is not ours
    return count


def is_busy() -> bool:
    """Whether the second server is there and the first one has requests: they are asked in this order."""
    try:
        second = httpx.get(f"http://127.0.0.1:{SECOND_PORT}/health", timeout=2)
        first = httpx.get(f"http://127.0.0.1:{FIRST_PORT}/metrics", timeout=2)
    except httpx.HTTPError:
        return False
    return second.is_success and bool(RUNNING.search(first.text))


def wait_until_busy(program: subprocess.Popen[bytes], work: Path) -> float:
    """Seconds until requests run."""
    began = time.monotonic()
    while not is_busy():
        if program.poll() is not None or time.monotonic() - began > START_S_MAX:
            sys.exit(
                f"killed.py: no request runs after {time.monotonic() - began:.0f} s; the servers' logs are in {work}"
            )
        time.sleep(0.5)
    return time.monotonic() - began


def left_after(number: signal.Signals, work: Path, words: list[str]) -> int:
    """Start, end by the signal, and count until nothing is left; what is left at the end."""
    command = [sys.executable, str(SERVING), "--work", str(work), "--methods", "none", "fp8", "--requests", "20000"]
    program = subprocess.Popen(
        [*command, *words],
        stdout=subprocess.DEVNULL,
        env=os.environ | KEPT_ENVIRONMENT,
        preexec_fn=keeper.end_with_parent,  # noqa: PLW1509 - this program has no other thread
    )
    try:
        busy_s = wait_until_busy(program, work)
        if not (before := processes_of(work)):
            sys.exit(f"killed.py: no process has {work} in its environment, so nothing can be counted")
        print(f"{number.name}: requests run after {busy_s:.0f} s, {before} processes", flush=True)
        program.send_signal(number)
        began, left = time.monotonic(), 0
        for at_s in COUNTED_AT_S:
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            left = processes_of(work)
            print(f"  {at_s} s after it: {left}", flush=True)
            if left == 0:
                break
        return left
    finally:
        program.kill()
        program.wait()


def main() -> None:
    """Both signals; exit status 1 where a process is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the servers' files")
    parser.add_argument("--small", action="store_true", help="a tiny shape on a CPU")
    wanted = parser.parse_args()
    words = ["--small"] if wanted.small else []
    for number in (signal.SIGKILL, signal.SIGTERM):
        if left := left_after(number, wanted.work.resolve() / number.name, words):
            sys.exit(f"killed.py: {left} processes are left {COUNTED_AT_S[-1]} s after {number.name}")


if __name__ == "__main__":
    main()
