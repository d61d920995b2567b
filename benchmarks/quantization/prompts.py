"""On a GPU: milliseconds of prompts with each method, engines timed in turns, in one order and its reverse.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/quantization/prompts.py --work FOLDER --out OUT.json
    python benchmarks/quantization/prompts.py --table OUT.json

Engines as in `end_to_end.py`, all started at once. An arm is a method and the most tokens of a step that run as CUDA
graphs: `fp8@512`. Without a number it is the engine's own, by the requests of a step (--requests): 64 make 128. A mode
of graphs may follow: `fp8@512-full` captures attention, too, in steps that read prompts and in all others. In each
round every engine reads the same prompts once, in the order of the arms; the next round goes backwards. Rows with
`decoded` are milliseconds a decoded token after a prompt of 128, by the requests of a step.

A figure is a median over rounds; a ratio is the median of the rounds' ratios to the first arm. --small runs on a CPU
with a tiny shape: it tests the program and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import end_to_end
import shapes
from end_to_end import ENDING_S, Started

ARMS = ("none@512", "fp8@512", "ifq@512", "ifq_nf4@512", "fp8_per_channel@512", "fp8")
LENGTHS, BATCHES = (128, 256, 512, 1024, 2048), (1, 4)
DECODED, BESIDE = 64, (1, 10, 64)
"""Tokens that an answer has where decoding is timed, and answers at once."""
Prompt = tuple[int, int, int]
"""Tokens, prompts at once, and tokens of the answer: 1, or more where the decoded ones are timed."""


def serve(arm: str, wanted: argparse.Namespace) -> None:
    """Start one engine; each line asks for a prompt, and its milliseconds are written."""
    method, _, graphs = arm.partition("@")
    tokens, _, mode = graphs.partition("-")
    end_to_end.EXTRA = {"max_num_seqs": wanted.requests}
    if not wanted.small:
        end_to_end.EXTRA |= {"max_num_batched_tokens": 8192, "kv_cache_memory_bytes": 2**30}
    if graphs and not wanted.small:
        captured = {"max_cudagraph_capture_size": int(tokens), **({"cudagraph_mode": mode.upper()} if mode else {})}
        end_to_end.EXTRA |= {"compilation_config": captured}
    begun = time.perf_counter()
    llm = end_to_end.engine(method, wanted)
    print("READY", json.dumps({"start_s": round(time.perf_counter() - begun, 1), **memory()}), flush=True)
    for line in sys.stdin:
        length, batch, answer = json.loads(line)
        spent_s = end_to_end.seconds(llm, batch, length, 1)
        if answer > 1:
            spent_s = (end_to_end.seconds(llm, batch, length, answer) - spent_s) / (answer - 1)
        print("MS", 1000 * spent_s, flush=True)


def memory() -> dict[str, float]:
    """GiB of the card that this process has reserved."""
    import torch

    return {"reserved_gib": round(torch.cuda.memory_reserved() / 2**30, 2)} if torch.cuda.is_available() else {}


class Engine(Started):
    """One arm's process."""

    def __init__(self, arm: str, wanted: argparse.Namespace) -> None:
        self.seen = 0
        super().__init__(arm, wanted, program=__file__, more=("--requests", str(wanted.requests)))

    def ms(self, prompt: Prompt, deadline: float) -> float:
        """Of one batch of prompts."""
        self.process.stdin.write(json.dumps(prompt) + "\n")
        self.process.stdin.flush()
        self.seen += 1
        while len(found := [line for line in self.lines if line.startswith("MS")]) < self.seen:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"{self.method}: " + "".join(self.errors)[-1500:])
            time.sleep(0.0005)
        return float(found[-1].removeprefix("MS"))


def name_of(prompt: Prompt) -> str:
    """The row's."""
    length, batch, answer = prompt
    return f"{length}x{batch}" if answer == 1 else f"decodedx{batch}"


def measure(engines: list[Engine], prompts: list[Prompt], deadline: float) -> dict[str, dict[str, list[float]]]:
    """Milliseconds by prompt and arm, a figure a round, until the time is over."""
    found: dict[str, dict[str, list[float]]] = {}
    for prompt in prompts:  # kernels that compile at their first use
        for engine in engines:
            for _ in range(2):
                engine.ms(prompt, deadline)
    number = 0
    while time.monotonic() < deadline:
        for prompt in prompts:
            for engine in engines if number % 2 == 0 else reversed(engines):
                ms = engine.ms(prompt, deadline + ENDING_S)
                found.setdefault(name_of(prompt), {}).setdefault(engine.method, []).append(round(ms, 3))
        number += 1
    return found


def table(found: dict[str, Any]) -> str:
    """A line a prompt: the first arm's milliseconds, and how many times as long the others take."""
    arms = found["arms"]
    head = f"| tokens × prompts | rounds | {arms[0]}, ms | " + " | ".join(arms[1:]) + " |"
    lines = [head, "| --- " * (len(arms) + 2) + "|"]
    for name, by_arm in found["ms"].items():
        first = by_arm[arms[0]]
        ratios = [statistics.median(map(lambda a, b: a / b, by_arm[arm], first)) for arm in arms[1:]]
        words = " | ".join(f"{ratio:.3f}" for ratio in ratios)
        lines.append(f"| {name.replace('x', ' × ')} | {len(first)} | {statistics.median(first):.2f} | {words} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder for models and caches")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of these results")
    parser.add_argument("--arms", nargs="+", default=ARMS)
    parser.add_argument("--requests", type=int, default=64, help="of a step")
    parser.add_argument("--limit-s", type=float, default=500, help="seconds for everything")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--lengths", nargs="*", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.table:
        print(table(json.loads(wanted.table.read_text())))
        return
    wanted.eager = wanted.real = False
    if wanted.one:
        serve(wanted.one, wanted)
        return
    if not (wanted.work and wanted.out):
        parser.error("--work and --out are missing")
    deadline = time.monotonic() + wanted.limit_s - 2 * ENDING_S
    shapes.describe(wanted.work / "model", shapes.SMALL if wanted.small else shapes.QWEN2_7B)
    wanted.lengths = ()
    engines = [Engine(arm, wanted) for arm in wanted.arms]
    prompts = [(20, 1, 1), (40, 2, 1), (20, 1, 4)]
    if not wanted.small:
        prompts = [(length, batch, 1) for batch in BATCHES for length in LENGTHS]
        prompts += [(LENGTHS[0], batch, DECODED + 1) for batch in BESIDE]
    try:
        starts = {one.method: json.loads(one.wait("READY", deadline) or "{}") for one in engines}
        print(json.dumps(starts), flush=True)
        found = {"arms": wanted.arms, "starts": starts, "ms": measure(engines, prompts, deadline)}
        wanted.out.write_text(json.dumps(found))
        print(table(found), flush=True)
    finally:
        until = time.monotonic() + ENDING_S
        for one in engines:
            one.end(until)


if __name__ == "__main__":
    main()
