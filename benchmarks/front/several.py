"""Requests a second with one and with several API processes: stock `vllm serve` and ours, with a real engine, in turns.

    PYTHONPATH=server/src:lib/base/src:lib/sizing/src python benchmarks/front/several.py --work FOLDER [--counts 1 4 8]

Each server is the demo model on one card (--small: on the CPU), whose engine is far faster than an API process. All
start at once and are asked one after the other, in one order and then in the other; an answer has 128 tokens. Clients
are processes of their own, which count pieces and parse none. Ours has a key with limits that are never reached and
records of usage. The defaults are four servers, three numbers of streams and two measurements of each, of 2 s at least:
about a minute after the start, for 32 cores. With fewer than 16 it measures the machine, not the servers.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import keeper
import streams as client
from beside import ROOT, plugin
from serving import PROGRAM, ready_after

STREAMS = (64, 128, 256)
COUNTS = (1, 4)
TOKENS = 128
FIRST_PORT = 18601
KEY = "several-benchmark-key"
ON_CARD = (
    *("--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(4 * 2**30), "--dtype", "float16"),
    *("--attention-backend", "TRITON_ATTN"),
    *("--compilation-config", '{"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}'),
)
"""CUDA graphs without the minutes of compiling."""
ON_CPU = ("--dtype", "float32", "--enforce-eager")
LEAST_S = 2.0
"""Seconds of a measurement at least, by what the server gave before."""


def command(arm: str, count: int, port: int, wanted: argparse.Namespace) -> list[str]:
    """The start command; both get the same flags of the engine."""
    words = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "demo", "--max-model-len", "1024"]
    words += ["--max-num-seqs", "256", "--disable-uvicorn-access-log", "--api-server-count", str(count)]
    words += ON_CPU if wanted.small else ON_CARD
    if arm == "stock":
        return [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(wanted.model), *words]
    words += ["--limit-worker-concurrency", "1024", "--max-waiting-requests", "1024"]
    return [sys.executable, "-c", PROGRAM, "run", "--model", str(wanted.model), *words,
            "--api-keys-file", str(wanted.work / "keys.json")]  # fmt: skip


def variables(arm: str, name: str, port: int, wanted: argparse.Namespace) -> dict[str, str]:
    """Stock has none of our plug-ins."""
    own = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    own |= {"VLLM_CACHE_ROOT": str(wanted.work / f"cache-{name}")}
    own |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"} if wanted.small else {}
    if arm == "stock":
        return own | {"VLLM_PLUGINS": ""}
    sources = [plugin(wanted.work), *(ROOT / f"{one}/src" for one in ("server", "lib/base", "lib/sizing"))]
    own |= {"PYTHONPATH": ":".join(map(str, [*sources, os.environ.get("PYTHONPATH", "")])), "TP": "1"}
    own |= {"WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FACTS_PORT": str(port + 100)}
    return own | {"WINDLASS_USAGE_DIR": str(wanted.work / f"usage-{name}")}


def start(arm: str, count: int, port: int, wanted: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A server; what it says goes into a file of the work folder."""
    name = f"{arm}-{count}"
    with (wanted.work / f"{name}.log").open("wb") as log:
        own = os.environ | variables(arm, name, port, wanted)
        return keeper.start(command(arm, count, port, wanted), stdout=log, stderr=log, env=own)


def ask(port: int, streams: int, each: int) -> tuple[float, float, int, int]:
    """One client process: when it began and ended, its answers and their pieces."""
    body: dict[str, Any] = {"model": "demo", "stream": True, "max_tokens": TOKENS, "ignore_eos": True}
    body |= {"messages": [{"role": "user", "content": "What does os.path.join do?"}], "temperature": 0}
    asked = client.request("/v1/chat/completions", body, KEY)
    began = time.time()
    counted = asyncio.run(client.load(port, streams, each, asked))
    return began, time.time(), counted.requests, counted.events


def measure(pool: ProcessPoolExecutor, clients: int, port: int, streams: int, each: int) -> dict[str, float]:
    """So many streams, spread over the client processes."""
    parts = [streams // clients + (one < streams % clients) for one in range(clients)]
    found = list(pool.map(ask, itertools.repeat(port), parts, itertools.repeat(each)))
    seconds = max(row[1] for row in found) - min(row[0] for row in found)
    requests, pieces = (sum(row[at] for row in found) for at in (2, 3))
    if requests != streams * each:
        raise RuntimeError(f"{requests} of {streams * each} answers came from port {port}")
    return {"requests_per_s": requests / seconds, "pieces_per_s": pieces / seconds, "seconds": seconds}


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Medians, and each against stock with one process."""
    lines = ["| streams | server | API processes | requests/s | against stock with one |", "|" + " --- |" * 5]
    for streams in dict.fromkeys(row["streams"] for row in rows):
        found: dict[tuple[str, int], list[float]] = {}
        for row in rows:
            if row["streams"] == streams:
                found.setdefault((row["arm"], row["count"]), []).append(row["requests_per_s"])
        plain = statistics.median(found.get(("stock", 1), [float("nan")]))
        for (arm, count), speeds in found.items():
            speed = statistics.median(speeds)
            lines.append(f"| {streams} | {arm} | {count} | {speed:.1f} | {speed / plain:.2f} × |")
    return lines


def asked_for() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for caches, logs and the result file")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="API processes")
    parser.add_argument("--arms", nargs="+", default=("stock", "ours"))
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--turns", type=int, default=1, help="each is both orders")
    parser.add_argument("--clients", type=int, default=6, help="processes that ask")
    parser.add_argument("--limit-s", type=float, default=240, help="seconds until all servers answer")
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--small", action="store_true", help="on the CPU: it tests the script and measures nothing")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    wanted.work.mkdir(parents=True, exist_ok=True)
    limits = {"requestsPerMinute": 10**8, "tokensPerMinute": 10**11, "concurrency": 10**5}
    document = {"keys": [{"name": "bench", "key": KEY, **limits}]}
    (wanted.work / "keys.json").write_text(json.dumps(document))
    return wanted


def main() -> None:
    """Every number of streams on every server; the file is written after each."""
    wanted, rows = asked_for(), list[dict[str, Any]]()
    arms = [(f"{arm}-{count}", arm, count) for count in wanted.counts for arm in wanted.arms]
    ports = {name: FIRST_PORT + at for at, (name, _, _) in enumerate(arms)}
    servers = {name: start(arm, count, ports[name], wanted) for name, arm, count in arms}
    try:
        ready = ready_after({name: f"http://127.0.0.1:{port}" for name, port in ports.items()}, servers, wanted.limit_s)
        for name in servers.keys() - ready.keys():
            print(f"{name} did not start:\n{(wanted.work / f'{name}.log').read_text()[-1500:]}", flush=True)
        there = [arm for arm in arms if arm[0] in ready]
        with ProcessPoolExecutor(wanted.clients) as pool:
            speed = {name: measure(pool, wanted.clients, ports[name], 64, 1)["requests_per_s"] for name, _, _ in there}
            for turn, streams in itertools.product(range(wanted.turns), wanted.streams):
                for name, arm, count in (*there, *there[::-1]):
                    each = max(1, round(LEAST_S * speed[name] / streams))
                    found = measure(pool, wanted.clients, ports[name], streams, each)
                    rows.append({"arm": arm, "count": count, "streams": streams, "turn": turn, **found})
                    (wanted.work / "several.json").write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            server.wait()
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
