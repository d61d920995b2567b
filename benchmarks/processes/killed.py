"""Counts what is left of two servers after their benchmark was ended: by SIGKILL, then by SIGTERM.

    PYTHONPATH=server/src:base/src:sizing/src python benchmarks/processes/killed.py WORK [--small]

The benchmark is `serving.py`, with a server in float16 and one in fp8. A server's processes are those whose environment
names its folder. Prints the number when both servers answer, and then by the seconds since the signal.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

SERVING = Path(__file__).resolve().parents[1] / "quantization/serving.py"
PORTS = 18501, 18502
LOOKS_S = 1, 2, 5, 10, 20, 30, 45
START_S_MAX = 300


def processes_of(folder: Path) -> int:
    """Processes whose environment names the folder."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += f"{folder}/cache-".encode() in path.read_bytes()
        except OSError:
            continue  # it ended, or is not ours
    return count


def wait_for_servers(program: subprocess.Popen[bytes]) -> float:
    """Seconds until both answer."""
    began = time.monotonic()
    for port in PORTS:
        while True:
            if program.poll() is not None or time.monotonic() - began > START_S_MAX:
                sys.exit(f"killed.py: the server on port {port} did not answer; its log is in WORK")
            try:
                if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
    return time.monotonic() - began


def left_after(number: signal.Signals, work: Path, words: list[str]) -> int:
    """Start, end by the signal, and count until nothing is left; what is left at the end."""
    command = [sys.executable, str(SERVING), "--work", str(work), "--methods", "none", "fp8", "--requests", "20000"]
    program = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL)
    try:
        ready_s = wait_for_servers(program)
        print(f"{number.name}: both servers answer after {ready_s:.0f} s, {processes_of(work)} processes", flush=True)
        program.send_signal(number)
        began, left = time.monotonic(), 0
        for look_s in LOOKS_S:
            time.sleep(max(0.0, began + look_s - time.monotonic()))
            left = processes_of(work)
            print(f"  {look_s} s after it: {left}", flush=True)
            if left == 0:
                break
        return left
    finally:
        program.kill()
        program.wait()


def main() -> None:
    """Both signals; red where a process is left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for the servers' files")
    parser.add_argument(
        "--small", action="store_true", help="a tiny shape on a CPU: it counts, and the card is not seen"
    )
    wanted = parser.parse_args()
    work = wanted.work.resolve()
    words = ["--small"] if wanted.small else []
    left = {one.name: left_after(one, work / one.name, words) for one in (signal.SIGKILL, signal.SIGTERM)}
    if any(left.values()):
        sys.exit(f"killed.py: processes are left {LOOKS_S[-1]} s after the signal: {left}")


if __name__ == "__main__":
    main()
