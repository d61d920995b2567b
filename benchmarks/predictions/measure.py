"""Speed of shapes on one card: servers with random weights, several at once in memory, measured one after the other.

    PYTHONPATH=… python benchmarks/predictions/measure.py --work FOLDER --out points.jsonl [--only SHAPE:METHOD …]

A server is `windlass run`. Each load and each prompt length is a line of JSON in the file, written as it is measured.
Servers start in waves that fit the card's free memory; a wave ends before the next starts. `run.sh` sets what it needs.
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
import keeper
import shapes
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement.formula import Serving, weights_gib

import client

HERE = Path(__file__).parent
SHAPES: dict[str, dict[str, Any]] = json.loads((HERE / "shapes.json").read_text())
POSITIONS = 16384
FIRST_PORT, PROGRAM = 18601, "from windlass.cli.main import main; main()"
WAVE_MAX = 6
"""Servers that start at once: more take longer than one after the other."""
BESIDE_GIB = 4.5
"""Context, graphs and activations of a server with 8,192 tokens a step."""
ENDING_S, MEASURE_S, START_S = 12.0, 30.0, 240.0
"""Six engines at once on 16 processors compiled for 110 s on an H200, and then captured their graphs."""
JOBS = (
    *("llama-3.1-8b:none", "qwen2-7b:none", "qwen2.5-1.5b:none", "llama-3.1-8b:fp8", "qwen2-7b:ifq_nf4"),
    *("llama-2-13b:none", "llama-3.1-8b:ifq_nf4", "qwen2-7b:fp8", "qwen2-7b:ifq", "llama-3.1-8b:ifq"),
    *("qwen2.5-14b:none", "qwen2.5-14b:fp8", "qwen2.5-1.5b:fp8", "qwen3-30b-a3b:none"),
)
"""What is measured, the most wanted first."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Loads of (clients, requests, mean tokens in, mean tokens out), and lengths of prompts that come alone."""

    loads: tuple[tuple[int, int, int, int], ...] = (
        *((1, 5, 220, 128), (10, 50, 220, 128), (64, 256, 220, 128)),
        (10, 20, 2048, 64),
    )
    prompts: tuple[int, ...] = (32, 128, 512, 2048, 8192)
    rounds: int = 5
    kv_tokens: int = 28_000
    """64 requests of the mean length at their end, and a quarter more."""


SMALL = Plan(((1, 2, 20, 8), (3, 6, 20, 8)), (8, 64), 2, 4096)


@dataclass(frozen=True, slots=True)
class Keep:
    """Writes rows of one server as they come."""

    path: Path
    about: dict[str, Any]

    def write(self, row: dict[str, Any]) -> None:
        """One line."""
        with self.path.open("a") as file:
            file.write(json.dumps({**self.about, **row}) + "\n")


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


def config(shape: str, *, small: bool) -> dict[str, Any]:
    """The shape with room for long prompts; small, the same architecture in two layers."""
    whole = SHAPES[shape] | {"max_position_embeddings": POSITIONS, "torch_dtype": "bfloat16"}
    if not small:
        return whole
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 256, "intermediate_size": 512}
    experts = {"num_experts": 4, "num_experts_per_tok": 2} if "num_experts" in whole else {}
    inner = {"moe_intermediate_size": 256} if "moe_intermediate_size" in whole else {}
    return whole | heads | experts | inner | {"num_hidden_layers": 2, "vocab_size": 32000, "head_dim": 64}


def kv_bytes(shape: str, plan: Plan) -> int:
    """Of the KV cache that all loads fit in, and a whole prompt of the longest length."""
    facts = from_config(config(shape, small=False))
    values = 2 * facts.head_dim * facts.num_key_value_heads * facts.num_hidden_layers
    return 2 * values * max(plan.kv_tokens, POSITIONS)


def need_gib(job: Job, plan: Plan) -> float:
    """What the server takes of the card."""
    facts = from_config(config(job.shape, small=False))
    method = None if job.method == "none" else job.method
    return weights_gib(facts, Serving(POSITIONS, quantization=method)) + kv_bytes(job.shape, plan) / 2**30 + BESIDE_GIB


def waves(jobs: Sequence[Job], free_gib: float, plan: Plan) -> Iterator[list[Job]]:
    """Jobs in their order, as many at once as fit; one that fits in no empty card is left out with a line."""
    left = list(jobs)
    while left:
        wave, room = [], free_gib
        for job in list(left):
            need = need_gib(job, plan)
            if need > free_gib:
                print(f"{job.name} needs {need:.0f} GiB of {free_gib:.0f}: left out", flush=True)
                left.remove(job)
            elif need <= room and len(wave) < WAVE_MAX:
                wave.append(job)
                left.remove(job)
                room -= need
        if wave:
            yield wave


def card() -> tuple[str, float]:
    """Name and free GiB of the card; a machine without one has much room."""
    words = ["nvidia-smi", "--query-gpu=name,memory.free", "--format=csv,noheader,nounits"]
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
    words += ["--max-model-len", "512" if wanted.small else "9216"]
    if not wanted.small:
        words += ["--gpu-memory-utilization", "0.05", "--kv-cache-memory-bytes", str(kv_bytes(job.shape, plan))]
        words += ["--max-num-batched-tokens", "8192", "--max-num-seqs", "64"]  # more are more graphs to capture
    own = {"WINDLASS_FACTS_PORT": str(job.port + 100), "VLLM_CACHE_ROOT": str(wanted.work / f"cache-{job.name}")}
    own |= {"XDG_CACHE_HOME": str(wanted.work / f"home-{job.name}"), "VLLM_CPU_KVCACHE_SPACE": "1"}
    own |= {"WINDLASS_FIRST_CHAT": "false"}  # it would be a chat in words, which these tokenizers may not have
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


def points(job: Job, plan: Plan) -> Iterator[dict[str, Any]]:
    """Every load and every prompt, after a load of each size that counts nowhere."""
    warm = client.drawn(2 * max(load[0] for load in plan.loads), *plan.loads[0][2:], 1)
    asyncio.run(client.load(job.url, [client.Request(one.tokens_in, 16) for one in warm], len(warm) // 2, 1))
    for length in plan.prompts:
        alone = [client.Request(length, 2) for _ in range(plan.rounds + 1)]
        asyncio.run(client.load(job.url, alone, 1, length))
        came = [client.ms(one.came[0] - one.begun) for one in alone[1:]]
        yield {"kind": "prompt", "tokens_in": length, "ttft_ms": statistics.median(came), "all_ms": came}
    for number, (clients, count, tokens_in, tokens_out) in enumerate(plan.loads):
        requests = client.drawn(count, tokens_in, tokens_out, number)
        begun, taken = asyncio.run(client.load(job.url, requests, clients, number + 100))
        yield {"kind": "load", "clients": clients, **client.of_load(requests, begun, taken)}


def measure(wave: Sequence[Job], wanted: argparse.Namespace, deadline: float, about: dict[str, Any]) -> bool:
    """Start, wait, measure each, end; False when the time is over."""
    plan, began = SMALL if wanted.small else Plan(), time.monotonic()
    print(f"start: {', '.join(job.name for job in wave)}", flush=True)
    servers = [start(job, wanted, plan) for job in wave]
    try:
        until = min(deadline - MEASURE_S, began + wanted.start_s)
        ready = [wait(job, server, until) for job, server in zip(wave, servers, strict=True)]
        print(f"ready after {time.monotonic() - began:.0f} s: {sum(ready)} of {len(wave)}", flush=True)
        for job, is_ready in zip(wave, ready, strict=True):
            if time.monotonic() > deadline - MEASURE_S:
                print(f"{job.name}: no time left", flush=True)
                continue
            keep = Keep(wanted.out, {**about, "shape": job.shape, "method": job.method})
            if not (is_ready and measured(job, plan, keep)):
                keep.write({"kind": "failed", "log": tail(job, wanted)})
            print(f"{job.name}: {time.monotonic() - began:.0f} s", flush=True)
    finally:
        end(servers)
    return time.monotonic() < deadline - MEASURE_S - 60


def measured(job: Job, plan: Plan, keep: Keep) -> bool:
    """Write every point; False when the engine ended, or refused."""
    try:
        for row in points(job, plan):
            keep.write(row)
    except (aiohttp.ClientError, OSError, IndexError, ValueError) as error:
        print(f"{job.name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        return False
    return True


def tail(job: Job, wanted: argparse.Namespace) -> str:
    """How its log ends."""
    return (wanted.work / f"{job.name}.log").read_text(errors="replace")[-3000:]


def main() -> None:
    """Wave after wave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for models, caches and logs")
    parser.add_argument("--out", type=Path, required=True, help="points are appended here")
    parser.add_argument("--only", nargs="+", default=JOBS, metavar="SHAPE:METHOD")
    parser.add_argument("--limit-s", type=float, default=460, help="seconds for everything")
    parser.add_argument("--start-s", type=float, default=START_S, help="longest start of a wave")
    parser.add_argument("--small", action="store_true")
    wanted = parser.parse_args()
    wanted.work = wanted.work.resolve()
    wanted.work.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wanted.limit_s - ENDING_S
    name, free = card()
    about = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "card": name}
    jobs = [Job(*one.split(":"), FIRST_PORT + at) for at, one in enumerate(wanted.only)]
    for wave in waves(jobs, free - 2, SMALL if wanted.small else Plan()):
        if not measure(wave, wanted, deadline, about):
            break


if __name__ == "__main__":
    main()
