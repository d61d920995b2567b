"""What a worker process of its own costs a CPU engine of one rank: start, processor time, memory, time of a token.

    python -m windlass_testbed python /repo/benchmarks/starts/in_process.py [--turns 3]

Both arms bind no threads (`VLLM_CPU_OMP_THREADS_BIND=nobind`). `worker` has vLLM's own executor for CPUs (`mp`),
`in process` the one that `windlass run` takes then. Servers of the demo's model start in turns, each alone. A row has
the seconds to readiness, the processor time until then, the memory of all its processes (PSS), and the median of a
token's milliseconds over eight answers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from beside_streams import BODY, SHARED, TOKENS, Server

ARMS = {"worker": ("--distributed-executor-backend", "mp"), "in process": ()}
ANSWERS = 8
HERTZ = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[Path]:
    """The folders in /proc of a process and of all below it."""
    folder = Path(f"/proc/{pid}")
    yield folder
    for task in folder.glob("task/*/children"):
        for child in task.read_text().split():
            yield from tree(int(child))


def processor_s(folder: Path) -> float:
    """Processor time of a process, and of its children that have ended."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / HERTZ


def memory_mib(folder: Path) -> float:
    """Its memory, of what is shared its part."""
    found = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
    return int(found.split()[1]) / 1024


def token_ms(server: Server) -> float:
    """Milliseconds of one answer, for each of its tokens."""
    url = f"http://127.0.0.1:{server.ports[0]}/v1/completions"
    request = urllib.request.Request(url, BODY, {"Content-Type": "application/json"})
    began = time.monotonic()
    urllib.request.urlopen(request, timeout=300).read()
    return 1000 * (time.monotonic() - began) / TOKENS


def row(arm: str, folder: Path) -> dict[str, float | str]:
    """One start of an arm."""
    with Server(folder, SHARED, ARMS[arm]) as server:
        ready_s = server.ready()
        processes = list(tree(server.process.pid))
        token_ms(server)
        return {
            "arm": arm,
            "ready_s": round(ready_s, 1),
            "processor_s": round(sum(map(processor_s, processes)), 1),
            "memory_mib": round(sum(map(memory_mib, processes))),
            "token_ms": round(statistics.median(token_ms(server) for _ in range(ANSWERS)), 2),
        }


def main() -> None:
    """A row for each start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(wanted.turns):
            for arm in list(ARMS)[:: 1 if turn % 2 == 0 else -1]:
                print(json.dumps(row(arm, Path(folder, f"{arm}-{turn}"))), flush=True)


if __name__ == "__main__":
    main()
