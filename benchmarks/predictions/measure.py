"""Speed of shapes on one card: servers with random weights, two at once in memory, measured one after the other.

    PYTHONPATH=… python benchmarks/predictions/measure.py --work FOLDER --out points.jsonl [--only SHAPE:METHOD …]

A server is `windlass run`. Each load and each prompt length is a line of JSON in the file, written as it is measured.
Servers start in waves that fit the card's free memory; a wave ends before the next starts. The same command goes on
where the last one stopped: it leaves out the points that the file has. `run.sh` sets what it needs.
--small runs tiny versions of the shapes on a CPU: it tests the program and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import aiohttp
import client
import keeper
import shapes
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.formula import Serving, weights_gib

HERE = Path(__file__).parent
SHAPES: dict[str, dict[str, Any]] = json.loads((HERE / "shapes.json").read_text())
POSITIONS = 16384
PROGRAM = "from windlass.cli.main import main; main()"
BESIDE_GIB = 4.5
"""Context, graphs and activations of a server with 8,192 tokens a step."""
CACHE_GIB_MAX = 20.0
"""Of a KV cache. A shape that needs more for all loads gets the smaller cache, and leaves out what that cannot hold."""
ENDING_S, MEASURE_S, START_S, START_S_MIN = 12.0, 15.0, 240.0, 75.0
"""Six engines at once on 16 processors compiled for 110 s on an H200, and then captured their graphs."""
FAILURES_MAX = 2
"""A server that failed so often is left out."""
JOBS = (
    *("llama-3.1-8b:none", "qwen2-7b:none", "llama-3.1-8b:fp8", "qwen2.5-14b:fp8"),
    *("qwen2.5-1.5b:none", "llama-3.1-8b:ifq", "qwen2-7b:fp8", "qwen2-7b:ifq"),
    *("llama-3.2-1b:none", "qwen2.5-14b:ifq", "qwen2.5-3b:fp8", "qwen2.5-14b:none"),
    *("llama-3.2-1b:fp8", "qwen2.5-3b:none", "qwen2.5-1.5b:fp8", "llama-3.1-8b:ifq_nf4", "qwen2-7b:ifq_nf4"),
    *("llama-2-13b:none", "qwen3-30b-a3b:none"),
)
"""What is measured, the most wanted first."""


@dataclass(frozen=True, slots=True)
class Load:
    """Clients, requests that count, and their mean tokens in and out."""

    clients: int
    requests: int
    tokens_in: int
    tokens_out: int

    @property
    def kv_tokens(self) -> int:
        """What its requests hold at most, as lengths vary."""
        return round(1.15 * self.clients * (self.tokens_in + self.tokens_out))


@dataclass(frozen=True, slots=True)
class Plan:
    """Loads, and lengths of prompts that come alone."""

    loads: tuple[Load, ...] = (
        *(Load(1, 3, 512, 96), Load(10, 20, 512, 96), Load(64, 96, 512, 96)),
        *(Load(10, 20, 2048, 64), Load(10, 20, 128, 96), Load(64, 96, 128, 96), Load(1, 3, 2048, 64)),
        *(Load(1, 3, 8000, 48), Load(10, 15, 8000, 64), Load(64, 80, 2048, 64)),
    )
    prompts: tuple[int, ...] = (128, 512, 2048, 8000)
    rounds: int = 5
    kv_tokens: tuple[int, int] = (156_000, 64_000)
    """Of the KV cache: for all loads, and for those without many long prompts."""


SMALL = Plan((Load(1, 2, 20, 8), Load(3, 6, 20, 8)), (8, 64), 2, (4096, 4096))


@dataclass(frozen=True, slots=True)
class Keep:
    """Writes rows as they come, and knows which points the file has of a server."""

    path: Path
    about: dict[str, Any]
    names: tuple[str, ...] = ()

    def of(self, job: Job) -> Keep:
        """For the rows of one server."""
        rows = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
        own = [row["point"] for row in rows if (row["shape"], row["method"]) == (job.shape, job.method)]
        return Keep(self.path, {**self.about, "shape": job.shape, "method": job.method}, tuple(own))

    def write(self, row: dict[str, Any]) -> None:
        """One line, and its figures for people."""
        with self.path.open("a") as file:
            file.write(json.dumps({**self.about, **row}) + "\n")
        figures = {name: row[name] for name in ("ttft_ms", "tpot_ms_mean", "ttft_ms_median", "short") if name in row}
        print(f"{self.about['shape']} {self.about['method']} {row['point']}: {figures}", flush=True)

    def lacks(self, job: Job, plan: Plan) -> bool:
        """Whether the server has points to measure, and did not fail too often."""
        own = self.of(job).names
        return own.count("failed") < FAILURES_MAX and not {name for name, _ in job.points(plan)} <= set(own)


@dataclass(frozen=True, slots=True)
class Job:
    """One server."""

    shape: str
    method: str
    port: int

    @property
    def name(self) -> str:
        """For folders and messages."""
        return f"{self.shape}-{self.method}"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def points(self, plan: Plan) -> Iterator[tuple[str, int | Load]]:
        """Names of prompts and loads; the cache holds each of them."""
        tokens = kv_tokens(self.shape, plan)
        yield from ((f"prompt {length}", length) for length in plan.prompts)
        for load in plan.loads:
            if load.kv_tokens <= tokens:
                yield f"load {load.clients}x{load.tokens_in}", load


def config(shape: str, *, small: bool) -> dict[str, Any]:
    """The shape with room for long prompts; small, the same architecture in two layers."""
    whole = SHAPES[shape] | {"max_position_embeddings": POSITIONS, "torch_dtype": "bfloat16"}
    if not small:
        return whole
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 256, "intermediate_size": 512}
    experts = {"num_experts": 4, "num_experts_per_tok": 2} if "num_experts" in whole else {}
    inner = {"moe_intermediate_size": 256} if "moe_intermediate_size" in whole else {}
    return whole | heads | experts | inner | {"num_hidden_layers": 2, "vocab_size": 32000, "head_dim": 64}


def kv_tokens(shape: str, plan: Plan) -> int:
    """Of the KV cache, never less than a whole prompt of the longest length."""
    most, fewer = (max(count, POSITIONS) for count in plan.kv_tokens)
    return most if most * kv_token_bytes(shape) <= CACHE_GIB_MAX * 2**30 else fewer


def kv_token_bytes(shape: str) -> int:
    """Of a token in the KV cache."""
    facts = from_config(config(shape, small=False))
    return 4 * facts.head_dim * facts.num_key_value_heads * facts.num_hidden_layers


def kv_bytes(shape: str, plan: Plan) -> int:
    """Of the KV cache."""
    return kv_tokens(shape, plan) * kv_token_bytes(shape)


def need_gib(job: Job, plan: Plan) -> float:
    """What the server takes of the card."""
    facts = from_config(config(job.shape, small=False))
    method = None if job.method == "none" else job.method
    return weights_gib(facts, Serving(POSITIONS, quantization=method)) + kv_bytes(job.shape, plan) / 2**30 + BESIDE_GIB


def waves(jobs: Sequence[Job], free_gib: float, plan: Plan, most: int) -> Iterator[list[Job]]:
    """Jobs in their order, at most so many at once as fit; one that no empty card holds is left out with a line."""
    left = list(jobs)
    while left:
        wave, room = [], free_gib
        for job in list(left):
            need = need_gib(job, plan)
            if need > free_gib:
                print(f"{job.name} needs {need:.0f} GiB of {free_gib:.0f}: left out", flush=True)
                left.remove(job)
            elif need <= room and len(wave) < most:
                wave.append(job)
                left.remove(job)
                room -= need
        if wave:
            yield wave


def card() -> tuple[str, float]:
    """Name and free GiB of the card; a machine without one has much room."""
    words = ["nvidia-smi", "--query-gpu=name,memory.free", "--format=csv,noheader,nounits"]
    words += ["-i", visible] if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) else []
    try:
        name, free = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[0].split(",")
    except (OSError, subprocess.CalledProcessError):
        return "CPU", 1000.0
    return name.strip(), float(free) / 1024


def start(job: Job, wanted: argparse.Namespace, plan: Plan) -> subprocess.Popen[bytes]:
    """`windlass run`; what it says goes into a file of the work folder."""
    model = wanted.work / job.shape
    shapes.describe(model, config(job.shape, small=wanted.small))
    words = ["--model", str(model), "--quantization", job.method, "--served-model-name", client.NAME]
    words += ["--host", "127.0.0.1", "--port", str(job.port), "--load-format", "dummy", "--no-enable-prefix-caching"]
    words += ["--dtype", "bfloat16" if wanted.small and job.method != "ifq_nf4" else "float16"]
    words += ["--max-model-len", "512" if wanted.small else str(POSITIONS)]
    words += ["--enforce-eager"] if wanted.small else []
    if not wanted.small:
        words += ["--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(kv_bytes(job.shape, plan))]
        words += ["--max-num-batched-tokens", "8192", "--max-num-seqs", "64"]  # more are more graphs to capture
    own = {"WINDLASS_FACTS_PORT": str(job.port + 100), "VLLM_CACHE_ROOT": str(wanted.work / "cache")}
    own |= {"XDG_CACHE_HOME": str(wanted.work / f"home-{job.name}"), "VLLM_CPU_KVCACHE_SPACE": "1"}
    own |= {"WINDLASS_FIRST_CHAT": "false"}  # nothing that is measured here needs it
    log = (wanted.work / f"{job.name}.log").open("wb")
    command = [sys.executable, "-c", PROGRAM, "run", *words]
    return keeper.start(command, patience_s=ENDING_S, stdout=log, stderr=log, env=os.environ | own)


def wait(job: Job, server: subprocess.Popen[bytes], deadline: float) -> bool:
    """Until it answers; False when it ended or the time is over."""
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{job.url}/health", timeout=5) as answer:
            if answer.status == 200:
                return True
        time.sleep(0.5)
    return False


def end(servers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Each is asked to end; its keeper kills what is left after a while."""
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait()


def warm(job: Job, plan: Plan) -> None:
    """A load of the most clients that counts nowhere."""
    clients = max(load.clients for load in plan.loads)
    some = client.drawn(clients, plan.loads[0].tokens_in, 16, 1)
    asyncio.run(client.load(job.url, some, some[:1], clients, 1))


def prompt(url: str, length: int, rounds: int) -> dict[str, Any]:
    """One prompt after the other; the first counts nowhere."""
    alone = [client.Request(length, 2) for _ in range(rounds + 1)]
    asyncio.run(client.load(url, alone[:1], alone[1:], 1, length))
    came = [client.ms(one.came[0] - one.begun) for one in alone[1:]]
    return {"kind": "prompt", "tokens_in": length, "ttft_ms": statistics.median(came), "all_ms": came}


def under(url: str, load: Load) -> dict[str, Any]:
    """Figures of one load, once each client has had a request."""
    seed = load.clients * load.tokens_in
    lead = client.drawn(load.clients, load.tokens_in, load.tokens_out, seed)
    counted = client.drawn(load.requests, load.tokens_in, load.tokens_out, seed + 1)
    every = asyncio.run(client.load(url, lead, counted, load.clients, seed))
    return {"kind": "load", "clients": load.clients, **client.of_load(counted, every)}


def measure(wave: Sequence[Job], wanted: argparse.Namespace, deadline: float, keep: Keep) -> bool:
    """Start, wait, measure each, end; False when the time is over."""
    plan, began = plan_of(wanted), time.monotonic()
    print(f"start: {', '.join(job.name for job in wave)}", flush=True)
    servers = [start(job, wanted, plan) for job in wave]
    try:
        until = min(deadline - MEASURE_S, began + wanted.start_s)
        ready = [wait(job, server, until) for job, server in zip(wave, servers, strict=True)]
        print(f"ready after {time.monotonic() - began:.0f} s: {sum(ready)} of {len(wave)}", flush=True)
        if not all(ready) and time.monotonic() >= deadline - MEASURE_S:
            print("the time ended while servers started", flush=True)
            return False
        for job, is_ready in zip(wave, ready, strict=True):
            if not (is_ready and measured(job, plan, keep.of(job), deadline)):
                keep.of(job).write({"kind": "failed", "point": "failed", "log": tail(job, wanted)})
            print(f"{job.name}: {time.monotonic() - began:.0f} s", flush=True)
    finally:
        end(servers)
    return time.monotonic() < deadline - MEASURE_S - START_S_MIN


def measured(job: Job, plan: Plan, keep: Keep, deadline: float) -> bool:
    """Write every point that the file lacks; False when the engine ended, or refused."""
    try:
        warm(job, plan)
        for name, point in job.points(plan):
            if name in keep.names:
                continue
            if time.monotonic() > deadline - MEASURE_S:
                print(f"{job.name}: no time left for {name} and what follows", flush=True)
                break
            row = prompt(job.url, point, plan.rounds) if isinstance(point, int) else under(job.url, point)
            keep.write({"point": name, **row})
    except (aiohttp.ClientError, OSError, IndexError, ValueError, ExceptionGroup) as error:
        print(f"{job.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return False
    return True


def tail(job: Job, wanted: argparse.Namespace) -> str:
    """How its log ends."""
    return (wanted.work / f"{job.name}.log").read_text(errors="replace")[-3000:]


def plan_of(wanted: argparse.Namespace) -> Plan:
    """What is measured of each server."""
    return SMALL if wanted.small else Plan()


def main() -> None:
    """Wave after wave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for models, caches and logs")
    parser.add_argument("--out", type=Path, required=True, help="points are appended here")
    parser.add_argument("--only", nargs="+", default=JOBS, metavar="SHAPE:METHOD")
    parser.add_argument("--limit-s", type=float, default=460, help="seconds for everything")
    parser.add_argument("--start-s", type=float, default=START_S, help="longest start of a wave")
    parser.add_argument("--at-once", type=int, default=2, help="servers of a wave")
    parser.add_argument("--first-port", type=int, default=18601)
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    wanted.work.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wanted.limit_s - ENDING_S
    (name, free), plan = card(), plan_of(wanted)
    keep = Keep(wanted.out, {"date": time.strftime("%Y-%m-%d", time.gmtime()), "card": name})
    jobs = [Job(*one.split(":"), wanted.first_port + at) for at, one in enumerate(wanted.only)]
    for wave in waves([job for job in jobs if keep.lacks(job, plan)], free - 2, plan, wanted.at_once):
        if not measure(wave, wanted, deadline, keep):
            break


if __name__ == "__main__":
    main()
