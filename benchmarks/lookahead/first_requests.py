"""Whether the first requests of a fresh server with lookahead are as fast as its later ones, and as those without.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/lookahead/first_requests.py --work FOLDER --out FILE

Three servers of Qwen2-7B's shape with random weights start beside each other: without lookahead, with it, and with it
but without its first steps (`windlass.engine.lookahead.first_steps`), as it was before there were any. Ten clients ask
each in turn, every second request greedy, the others sampled as most models have it: 20 requests are the first,
60 more are the later ones. Kernels that vLLM's monitor saw being compiled after the server was ready are named.

Rounds 0 and 1 begin with empty caches, rounds 2 and 3 with the caches of those; every second round asks in the other
order. The same command goes on after the last round of the file. --small runs it on a CPU with a tiny shape: it tests
the script and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import httpx
import keeper
import serving
import shapes
from beside import ROOT, plugin
from serving import MODEL, Answer

ARMS = ("none", "before", "lookahead")
FIRST, LATER, CLIENTS = 20, 60, 10
SWITCHES = ("SHARES", "TOP_P")
"""The constants of `windlass.engine.lookahead.first_steps` that count its steps; with both empty there are none."""
COLD_ROUNDS = 2
"""With empty caches: one in each order."""
TOKENS_IN, TOKENS_OUT = 128, 64
SAMPLED = {"temperature": 0.7, "top_p": 0.8, "top_k": 20}
COMPILED = re.compile(r"(\S+ [\w-]+) during inference: (\w+)")
FLAGS = (
    "--load-format dummy --dtype float16 --max-model-len 2048 --max-num-seqs 64 --no-enable-prefix-caching "
    "--gpu-memory-utilization 0.05 --kv-cache-memory-bytes 2147483648 --jit-monitor-verbose"
)
SMALL = "--load-format dummy --dtype float32 --max-model-len 512 --no-enable-prefix-caching --enforce-eager"


def sources(arm: str, work: Path) -> Path:
    """The server's sources; a copy that takes no first steps for `before`."""
    if arm != "before":
        return ROOT / "server/src"
    copy = work / "before"
    if not copy.exists():
        shutil.copytree(ROOT / "server/src", copy)
        file = copy / "windlass/engine/lookahead/first_steps.py"
        text = file.read_text()
        for name in SWITCHES:
            text, count = re.subn(rf"^{name} = .*$", f"{name} = ()", text, flags=re.M)
            if count != 1:
                raise RuntimeError(f"the first steps have no one {name}; mend this benchmark")
        file.write_text(text)
    return copy


def start(arm: str, port: int, folder: Path, kept: Path, wanted: argparse.Namespace) -> subprocess.Popen[Any]:
    """`windlass run` with the caches of a folder; what it says goes into a file of its own."""
    if kept == folder:
        shutil.rmtree(folder, ignore_errors=True)  # of a call that ended amid this round
    folder.mkdir(parents=True, exist_ok=True)
    words = ["--model", str(wanted.work / "model"), "--served-model-name", MODEL, "--host", "127.0.0.1"]
    words += ["--port", str(port), *(SMALL if wanted.small else FLAGS).split(), "--quantization", wanted.method]
    if arm != "none":
        words += ["--use-lookahead", "--cpu-decoding-memory-utilization", "0.02"]
    paths = (plugin(folder), sources(arm, wanted.work), *(ROOT / f"{one}/src" for one in ("lib/base", "lib/sizing")))
    caches = ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME")
    own = {name: str(kept / name.lower()) for name in caches}
    own |= {"PYTHONPATH": ":".join(map(str, (*paths, os.environ.get("PYTHONPATH", ""))))}
    own |= {"WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FACTS_PORT": str(port + 100), "VLLM_NO_USAGE_STATS": "1"}
    own |= {"HF_HUB_OFFLINE": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_ALLREDUCE_USE_FLASHINFER": "0"}
    own |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"} if wanted.small else {}
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-c", serving.PROGRAM, "run", *words]
        return keeper.start(command, stdout=log, stderr=log, env=os.environ | own)


async def load(url: str, count: int, vocabulary: int, seed: int) -> list[Answer]:
    """So many requests by ten clients, each the next one when it has its answer."""
    chance = random.Random(seed)  # noqa: S311 - draws a load, no secret
    answers = [Answer(TOKENS_IN, TOKENS_OUT) for _ in range(count)]
    left = list(enumerate(answers))[::-1]

    async def client(http: httpx.AsyncClient) -> None:
        while left:
            number, answer = left.pop()
            words = [chance.randrange(2, vocabulary) for _ in range(TOKENS_IN)]
            body = {"model": MODEL, "prompt": words, "max_tokens": TOKENS_OUT, "ignore_eos": True, "stream": True}
            body |= SAMPLED if number % 2 else {"temperature": 0}
            answer.begun = time.perf_counter()
            async with http.stream("POST", "/v1/completions", json=body) as stream:
                stream.raise_for_status()
                async for line in stream.aiter_lines():
                    if line.startswith("data: {"):
                        answer.came.append(time.perf_counter())

    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        await asyncio.gather(*(client(http) for _ in range(CLIENTS)))
    return answers


def figures(answers: list[Answer]) -> dict[str, float]:
    """Time to the first token and time between two pieces, in milliseconds."""
    gaps = [[after - before for before, after in zip(one.came, one.came[1:], strict=False)] for one in answers]
    every = [gap for of_one in gaps for gap in of_one]
    ttft = [one.came[0] - one.begun for one in answers]
    tpot = [(one.came[-1] - one.came[0]) / (one.tokens_out - 1) for one in answers]
    most = {"itl_ms_max": round(1000 * max(every), 2), "ttft_ms_max": round(1000 * max(ttft), 2)}
    return serving.spread("ttft", ttft) | serving.spread("itl", every) | serving.spread("tpot", tpot) | most


def measure(arm: str, url: str, log: Path, wanted: argparse.Namespace) -> dict[str, Any]:
    """The first requests of a server that is ready, and later ones."""
    read = len(log.read_text(errors="replace"))
    size = (shapes.SMALL if wanted.small else shapes.QWEN2_7B)["vocab_size"]
    row: dict[str, Any] = {"arm": arm}
    for name, count, seed in (("first", FIRST, 1), ("later", LATER, 2)):
        row[name] = figures(asyncio.run(load(url, count, size, seed)))
        text = log.read_text(errors="replace")
        row[f"compiled_{name}"] = sorted({" ".join(found) for found in COMPILED.findall(text[read:])})
        read = len(text)
    steps = re.findall(r"\d+ first steps took .*", log.read_text(errors="replace"))
    return row | {"first_steps": steps}


def one_round(number: int, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """All arms, started together and asked one after the other."""
    order = wanted.arms if number % 2 == 0 else wanted.arms[::-1]
    folders = {arm: wanted.work / f"round-{number}" / arm for arm in order}
    kept = {arm: wanted.work / f"round-{number % COLD_ROUNDS}" / arm for arm in order}
    urls = {arm: f"http://127.0.0.1:{wanted.first_port + at}" for at, arm in enumerate(order)}
    about = {
        "round": number,
        "caches": "filled" if kept != folders and all(map(Path.exists, kept.values())) else "empty",
    }
    servers = {arm: start(arm, wanted.first_port + at, folders[arm], kept[arm], wanted) for at, arm in enumerate(order)}
    rows: list[dict[str, Any]] = []
    try:
        ready = serving.ready_after(urls, servers, wanted.start_s)
        for arm in order:
            rows.append(
                about | {"ready_s": ready.get(arm)} | found(arm, urls[arm], folders[arm] / "log", wanted, ready)
            )
            print(json.dumps({name: value for name, value in rows[-1].items() if name != "log"}), flush=True)
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            server.wait()
    return rows


def found(arm: str, url: str, log: Path, wanted: argparse.Namespace, ready: dict[str, float]) -> dict[str, Any]:
    """What was measured of an arm, or how its log ends."""
    error = "not ready"
    if arm in ready:
        try:
            return measure(arm, url, log, wanted)
        except (httpx.HTTPError, ValueError, IndexError) as raised:
            error = f"{type(raised).__name__}: {raised}"
    return {"arm": arm, "failed": error, "log": log.read_text(errors="replace")[-3000:]}


def table(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each server."""
    names = ("ttft_ms_mean", "ttft_ms_max", "itl_ms_median", "itl_ms_p99", "itl_ms_max", "tpot_ms_mean")
    lines = [f"| round | caches | arm | ready, s | requests | {' | '.join(names)} | compiled |", "| --- " * 12 + "|"]
    for row in rows:
        about = f"| {row['round']} | {row['caches']} | {row['arm']} | {row['ready_s']}"
        if "failed" in row:
            lines.append(f"{about} | failed: {row['failed'][:80]} |")
            continue
        for part in ("first", "later"):
            figures = " | ".join(f"{row[part][name]:.1f}" for name in names)
            lines.append(f"{about} | {part} | {figures} | {len(row[f'compiled_{part}'])} |")
    return [*lines, *(f"{row['arm']}: {step}" for row in rows for step in row.get("first_steps", ()))]


def main() -> None:
    """Round after round; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the model, caches and logs")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--method", default="fp8")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--rounds", type=int, default=2 * COLD_ROUNDS)
    parser.add_argument("--start-s", type=float, default=240, help="seconds until all servers of a round are ready")
    parser.add_argument("--begin-s", type=float, default=150, help="no round begins after so many seconds")
    parser.add_argument("--first-port", type=int, default=18501)
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    shapes.describe(wanted.work / "model", shapes.SMALL if wanted.small else shapes.QWEN2_7B)
    rows: list[dict[str, Any]] = json.loads(wanted.out.read_text()) if wanted.out.exists() else []
    began, first = time.monotonic(), 1 + max((row["round"] for row in rows), default=-1)
    for number in range(first, wanted.rounds):
        if time.monotonic() - began > wanted.begin_s:
            break
        rows += one_round(number, wanted)
        wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
