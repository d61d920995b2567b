"""What a service with each method gives ten clients over HTTP: requests and tokens a second, and the times of a token.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/quantization/serving.py --work FOLDER [--methods none …]

Servers are `windlass run` with random weights in Qwen2-7B's shape; all start at once, one after the other is asked,
every second turn backwards. --before FOLDER puts the servers of another checkout beside them.
Lengths are drawn log-normal by each turn's seed, their means 217 tokens in and 564 out; every server gets the same.
vLLM's sample of ShareGPT has some 200 out (--mean-out 200). The first requests of each are not counted. TTFT is the
time to the first token, ITL that between two pieces, TPOT a request's mean for a token after the first. --small runs
the same on a CPU with a tiny shape: it tests the script and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import httpx
import keeper
import shapes
from beside import ROOT, plugin

METHODS = ("none", "fp8", "ifq", "ifq_nf4")
PROGRAM = "from windlass.cli.main import main; main()"
CLIENTS, FIRST_PORT, MODEL = 10, 18501, "model"
MEAN_IN, MEAN_OUT, SPREAD_IN, SPREAD_OUT = 217, 564, 0.9, 0.6


@dataclass(frozen=True, slots=True)
class Arm:
    """A server: its method of quantization, and the checkout whose Python sources come first."""

    name: str
    method: str
    root: Path = ROOT


@dataclass(slots=True)
class Answer:
    """A request's length in tokens, and when its tokens came, in seconds of the clock."""

    tokens_in: int
    tokens_out: int
    begun: float = 0.0
    came: list[float] = field(default_factory=list)


def lengths(count: int, mean: float, spread: float, most: int, chance: random.Random) -> list[int]:
    """Log-normal, cut to 4 … `most`, then moved together until their mean is the wanted one."""
    drawn = [chance.lognormvariate(0, spread) for _ in range(count)]
    low, high = 0.0, 10.0 * mean
    for _ in range(60):
        scale = (low + high) / 2
        found = [min(most, max(4, round(scale * value))) for value in drawn]
        low, high = (scale, high) if statistics.fmean(found) < mean else (low, scale)
    return found


async def ask(http: httpx.AsyncClient, answer: Answer, words: list[int]) -> None:
    """Stream one completion, a token a piece."""
    body = {"model": MODEL, "prompt": words, "max_tokens": answer.tokens_out, "ignore_eos": True, "temperature": 0}
    answer.begun = time.perf_counter()
    async with http.stream("POST", "/v1/completions", json=body | {"stream": True}) as stream:
        stream.raise_for_status()
        async for line in stream.aiter_lines():
            if line.startswith("data: {"):
                answer.came.append(time.perf_counter())


async def load(url: str, answers: Sequence[Answer], vocabulary: int, seed: int) -> float:
    """All requests by ten clients, each the next one when it has its answer; seconds."""
    chance = random.Random(seed)  # noqa: S311 - draws a load, no secret
    left = [(answer, [chance.randrange(2, vocabulary) for _ in range(answer.tokens_in)]) for answer in answers]
    left.reverse()

    async def client(http: httpx.AsyncClient) -> None:
        while left:
            await ask(http, *left.pop())

    begun = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        await asyncio.gather(*(client(http) for _ in range(CLIENTS)))
    return time.perf_counter() - begun


def spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median and 99th percentile in milliseconds."""
    ranked = sorted(seconds)
    last = ranked[max(0, math.ceil(0.99 * len(ranked)) - 1)]
    values = {"mean": statistics.fmean(ranked), "median": statistics.median(ranked), "p99": last}
    return {f"{name}_ms_{kind}": round(1000 * value, 3) for kind, value in values.items()}


def figures(answers: Sequence[Answer], seconds: float) -> dict[str, float]:
    """Of one server."""
    gaps = [[after - before for before, after in zip(one.came, one.came[1:], strict=False)] for one in answers]
    tokens = sum(one.tokens_out for one in answers)  # all that were asked for: a piece may bring two
    return {
        "requests_per_s": round(len(answers) / seconds, 3),
        "output_tokens_per_s": round(tokens / seconds, 1),
        "tokens_per_s": round((tokens + sum(one.tokens_in for one in answers)) / seconds, 1),
        "mean_tokens_in": round(statistics.fmean(one.tokens_in for one in answers), 1),
        "mean_tokens_out": round(tokens / len(answers), 1),
        **spread("ttft", [one.came[0] - one.begun for one in answers]),
        **spread("tpot", [(one.came[-1] - one.came[0]) / (one.tokens_out - 1) for one in answers]),
        **spread("itl", [gap for of_one in gaps for gap in of_one]),
    }


def start(arm: Arm, port: int, wanted: argparse.Namespace) -> subprocess.Popen[bytes]:
    """`windlass run`; what it says goes into a file of the work folder."""
    words = ["--model", str(wanted.work / "model"), "--quantization", arm.method, "--served-model-name", MODEL]
    words += ["--host", "127.0.0.1", "--port", str(port), "--load-format", "dummy", "--dtype", "float16"]
    words += ["--max-model-len", "512" if wanted.small else "4096", "--no-enable-prefix-caching"]
    words += [] if wanted.small else ["--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(6 * 2**30)]
    own = {"WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FACTS_PORT": str(port + 100), "VLLM_NO_USAGE_STATS": "1"}
    own |= {"VLLM_CACHE_ROOT": str(wanted.work / f"cache-{arm.name}"), "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    paths = (
        plugin(wanted.work / f"plugin-{arm.name}", arm.root),
        *(arm.root / f"{one}/src" for one in ("server", "lib/base", "lib/sizing")),
        os.environ.get("PYTHONPATH", ""),
    )
    own |= {"PYTHONPATH": ":".join(map(str, paths)), "XDG_CACHE_HOME": str(wanted.work / f"home-{arm.name}")}
    own |= {"VLLM_CPU_KVCACHE_SPACE": "1"} if wanted.small else {}
    log = (wanted.work / f"{arm.name}.log").open("wb")
    command = [sys.executable, "-c", PROGRAM, "run", *words]
    return keeper.start(command, stdout=log, stderr=log, env=os.environ | own)


def wait(url: str, server: subprocess.Popen[bytes], deadline: float) -> bool:
    """Until it answers."""
    with httpx.Client(base_url=url, timeout=5) as http:
        while time.monotonic() < deadline and server.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if http.get("/health").is_success:
                    return True
            time.sleep(1)
    return False


def ready_after(urls: dict[str, str], servers: dict[str, subprocess.Popen[bytes]], limit_s: float) -> dict[str, float]:
    """Seconds from now until each server is ready; one that ended, or was not ready in time, is left out."""
    began, found = time.monotonic(), dict[str, float]()
    while time.monotonic() < began + limit_s:
        for arm in [arm for arm in servers if arm not in found and servers[arm].poll() is None]:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{urls[arm]}/health", timeout=2).is_success:
                    found[arm] = round(time.monotonic() - began, 2)
        if all(arm in found or server.poll() is not None for arm, server in servers.items()):
            break
        time.sleep(0.1)
    return found


def end(server: subprocess.Popen[bytes]) -> None:
    """It has been told to; its keeper kills what is left after a while."""
    server.wait()


def shape(wanted: argparse.Namespace) -> dict[str, Any]:
    """Of the model that is served."""
    return shapes.SMALL if wanted.small else shapes.QWEN2_7B


def warm_up(url: str, wanted: argparse.Namespace) -> None:
    """A few requests that are not counted."""
    mean_in = 20 if wanted.small else MEAN_IN
    asyncio.run(
        load(url, [Answer(mean_in, 8) for _ in range(2 * CLIENTS)], shape(wanted)["vocab_size"], wanted.seed - 1)
    )


def measure(url: str, mean_out: int, seed: int, wanted: argparse.Namespace) -> dict[str, float]:
    """One server's figures of one turn."""
    chance, cut = random.Random(seed), 200 if wanted.small else 2000  # noqa: S311 - as above
    mean_in = 20 if wanted.small else MEAN_IN
    tokens_in = lengths(wanted.requests, mean_in, SPREAD_IN, cut, chance)
    tokens_out = lengths(wanted.requests, mean_out, SPREAD_OUT, cut, chance)
    answers = [Answer(*pair) for pair in zip(tokens_in, tokens_out, strict=True)]
    return figures(answers, asyncio.run(load(url, answers, shape(wanted)["vocab_size"], seed)))


def turns(urls: dict[str, str], wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Each server once a turn, with requests of the turn's own."""
    for url in urls.values():
        warm_up(url, wanted)
    for mean_out, turn in itertools.product([12] if wanted.small else wanted.mean_out, range(wanted.turns)):
        for name in list(urls) if turn % 2 == 0 else reversed(list(urls)):
            found = measure(urls[name], mean_out, wanted.seed + turn, wanted)
            yield {"method": name, "turn": turn, "seed": wanted.seed + turn, "mean_out": mean_out, **found}


def arms_of(wanted: argparse.Namespace) -> list[Arm]:
    """The present checkout's servers, and those of the one before."""
    found = [Arm(method, method) for method in wanted.methods]
    if wanted.before:
        found += [Arm(f"{method}-before", method, wanted.before.resolve()) for method in wanted.before_methods]
    return found


def main() -> None:
    """Start all servers, ask one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the model, caches and logs")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--before", type=Path, help="another checkout, whose servers stand beside these")
    parser.add_argument("--before-methods", nargs="+", default=("none", "fp8"), help="with --before")
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument(
        "--mean-out",
        type=int,
        nargs="+",
        default=[MEAN_OUT],
        help="tokens of an answer, each in turns of its own (12 with --small)",
    )
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--seed", type=int, default=9, help="of the first turn")
    parser.add_argument("--limit-s", type=float, default=300, help="seconds until all servers answer")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    shapes.describe(wanted.work / "model", shape(wanted))
    deadline, rows = time.monotonic() + wanted.limit_s, []
    servers = {arm.name: start(arm, FIRST_PORT + at, wanted) for at, arm in enumerate(arms_of(wanted))}
    urls = {name: f"http://127.0.0.1:{FIRST_PORT + at}" for at, name in enumerate(servers)}
    try:
        ready = {name: wait(urls[name], server, deadline) for name, server in servers.items()}
        failed = [name for name, is_ready in ready.items() if not is_ready]
        lost = [{"method": name, "failed": (wanted.work / f"{name}.log").read_text()[-1500:]} for name in failed]
        asked = {name: url for name, url in urls.items() if name not in failed}
        for row in itertools.chain(lost, turns(asked, wanted)):
            rows.append(row)
            print(json.dumps(row), flush=True)
            if wanted.out:
                wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        for server in servers.values():
            server.terminate()
        for server in servers.values():
            end(server)


if __name__ == "__main__":
    main()
