"""How long a CPU server takes to start beside two that stream, with engines bound to cores and without.

    python -m windlass_testbed python /repo/benchmarks/starts/beside_streams.py --turns 2 --alone 6

All servers share every processor, as pods of a node without CPUs of their own do. In `bound` the engine binds itself
(VLLM_CPU_OMP_THREADS_BIND=auto), in `mixed` the two that stream do and the one that starts does not, in `shared` none
does. Printed are the third server's seconds to readiness and the tokens a second of the other two meanwhile. Before
that, a bound and an unbound server answer in turns, each alone.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import keeper

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/demo"
BIND = "VLLM_CPU_OMP_THREADS_BIND"
THREADS = max(1, len(os.sched_getaffinity(0)) - 1)
"""As many as the engine binds."""
BOUND, SHARED = {BIND: "auto"}, {BIND: "nobind", "OMP_NUM_THREADS": str(THREADS)}
ARMS = {"bound": (BOUND, BOUND), "mixed": (BOUND, SHARED), "shared": (SHARED, SHARED)}
"""Arm → the variables of the two that stream, and of the one that starts."""
LIMIT_S, ALONE_S = 400.0, 8.0
STREAMS, TOKENS = 2, 50
BODY = json.dumps({"model": "demo", "prompt": "What does os.path.join do?", "max_tokens": TOKENS, "temperature": 0,
                   "ignore_eos": True}).encode()  # fmt: skip


class Server:
    """`windlass run` of the repository's sources on the demo's model."""

    def __init__(self, folder: Path, own: dict[str, str], more: tuple[str, ...] = ()) -> None:
        """Start it, with variables and flags of its own."""
        folder.mkdir(parents=True)
        self.ports = [free_port(), free_port()]
        words = ["--model", str(MODEL), "--served-model-name", "demo"]
        words += ["--host", "127.0.0.1", "--port", str(self.ports[0])]
        paths = ":".join(str(ROOT / f"{one}/src") for one in ("server", "base", "sizing"))
        variables = {"PYTHONPATH": paths, "WINDLASS_FACTS_PORT": str(self.ports[1])}
        variables |= {"VLLM_CPU_KVCACHE_SPACE": "1", "WINDLASS_LICENSE_REQUIRED": "false"}
        variables |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        self.log, self.began, self.tokens, self.stop = folder / "log", time.monotonic(), 0, threading.Event()
        with self.log.open("wb") as log:
            command = ["windlass", "run", *words, *more]
            self.process: subprocess.Popen[Any] = keeper.start(
                command, stdout=log, stderr=log, env=os.environ | variables | own
            )

    def ready(self) -> float:
        """Seconds from its start until it is ready; RuntimeError with its last words where it is not."""
        while time.monotonic() - self.began < LIMIT_S and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/health", timeout=5).close()
            except OSError:
                time.sleep(0.2)
            else:
                return time.monotonic() - self.began
        raise RuntimeError(f"not ready:\n{self.log.read_text(errors='replace')[-3000:]}")

    def ask(self) -> None:
        """One answer after another, until told to stop."""
        url = f"http://127.0.0.1:{self.ports[0]}/v1/completions"
        while not self.stop.is_set():
            request = urllib.request.Request(url, BODY, {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=300).read()
            self.tokens += TOKENS

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def streaming(servers: list[Server]) -> list[threading.Thread]:
    """Threads that ask each server for answers without a pause."""
    threads = [threading.Thread(target=one.ask) for one in servers for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    return threads


def ended(servers: list[Server], threads: list[threading.Thread]) -> None:
    """Let the streams end whole."""
    for one in servers:
        one.stop.set()
    for thread in threads:
        thread.join()


def alone(folder: Path, turns: int) -> list[dict[str, Any]]:
    """Tokens a second of a bound and of an unbound server that nobody else asks, in turns; the other one rests."""
    with Server(folder / "bound", BOUND) as bound, Server(folder / "shared", SHARED) as shared:
        rows = []
        servers = {"bound": bound, "shared": shared}
        for one in servers.values():
            one.ready()
        for turn in range(turns):
            for name in list(servers)[:: 1 if turn % 2 == 0 else -1]:
                rows.append({"arm": name, "turn": turn, "alone_tokens_s": streamed(servers[name])})
                print(json.dumps(rows[-1]), flush=True)
        return rows


def streamed(server: Server) -> float:
    """Tokens a second of one server for a while."""
    before, began = server.tokens, time.monotonic()
    server.stop.clear()
    threads = streaming([server])
    time.sleep(ALONE_S)
    ended([server], threads)
    return round((server.tokens - before) / (time.monotonic() - began), 1)


def beside(arm: str, folder: Path) -> dict[str, float]:
    """A start beside two servers that stream."""
    old, new = ARMS[arm]
    with ExitStack() as stack:
        two = [stack.enter_context(Server(folder / f"old{number}", old)) for number in range(2)]
        for one in two:
            one.ready()
        threads, began = streaming(two), time.monotonic()
        try:
            third = stack.enter_context(Server(folder / "new", new))
            ready_s = third.ready()
            made, seconds = sum(one.tokens for one in two), time.monotonic() - began
        finally:
            ended(two, threads)
    return {"ready_s": round(ready_s, 1), "tokens_s_beside": round(made / seconds, 1)}


def main() -> None:
    """Turn after turn, the arms in one order and then in the other; a row is printed when it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2, help="starts beside two servers, of each arm")
    parser.add_argument("--alone", type=int, default=6, help="turns of a server alone, of each arm")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        rows += alone(Path(work) / "alone", asked.alone) if asked.alone else []
        for turn in range(asked.turns):
            for arm in asked.arms if turn % 2 == 0 else asked.arms[::-1]:
                rows.append({"arm": arm, "turn": turn} | beside(arm, Path(work) / f"{arm}-{turn}"))
                print(json.dumps(rows[-1]), flush=True)
    if asked.out:
        asked.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
