"""On a GPU: ms a token with and without lookahead, every workload at 1, 10 and 64 requests at a time.

    python on_device.py WORKLOADS.json.gz OUT.json [--seconds 430] [--tokens 6] [--only "chat,agent"] [--batches 10,64]

A model of the shape of Qwen2-7B with dummy weights, in fp8, follows the recorded text (`forced`), so every step costs
what it costs and drafts are accepted as the text has it. Two engines stand beside one another and are timed in pairs.
The cache is set back before text would be met again; "repeats" and "warm" begin with a cache that has seen it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from arms import Arm, Exchange, lookahead

SHAPE = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": False,
    "hidden_act": "silu", "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
}  # fmt: skip
BATCHES = (10, 1, 64)
PAIRS, PAIRS_ELSE = {"no repeats": 13, "agent": 13, "chat": 13, "humaneval": 13}, 8
"""Interleaved pairs: more where lookahead takes about as long as none does, so that three outliers move no bound; else
one moves none."""
COVERAGE = 0.95
TEMP = tempfile.gettempdir()
"""Two runs beside one another need one each: set TMPDIR."""
OUTPUT_TOKENS = 96
LAST: list[Exchange] = [([1, 2, 3], [4, 5])]
FIRST = ("no repeats", "gsm8k warm", "agent", "chat", "humaneval", "code-edit-diff", "repeats")


def workloads(path: Path) -> dict[str, tuple[list[Exchange], list[Exchange]]]:
    """(what the cache has seen, what is measured) of each workload."""
    found: dict[str, list[Exchange]] = json.loads(gzip.decompress(path.read_bytes()))
    warm = found.pop("gsm8k warm")
    named: dict[str, tuple[list[Exchange], list[Exchange]]] = {}
    for name, rows in found.items():
        half = len(rows) // 2
        named[name] = (rows[:half], rows[half:]) if name.startswith("repeat-") else ([], rows)
    named["gsm8k warm"] = (warm, found["gsm8k"])
    named["repeats"] = (found["gsm8k"][:70], found["gsm8k"][:70])
    chance = random.Random(1)  # noqa: S311 - no secret
    ids = [chance.sample(range(1000, 150000), 300) for _ in range(200)]
    named["no repeats"] = ([], [(row[:200], row[200:]) for row in ids])
    order = [*FIRST, *(name for name in named if name not in FIRST)]
    return {name: named[name] for name in order if named[name][1]}


def upper_of_median(values: Sequence[float]) -> tuple[float, float]:
    """The smallest value that bounds the median in 95 of 100 cases, whatever the distribution, and its coverage."""
    below = 0
    for at, value in enumerate(sorted(values)):
        below += math.comb(len(values), at)
        if (coverage := below / 2 ** len(values)) >= COVERAGE:
            return value, coverage
    raise ValueError(f"{len(values)} values bound no median at {COVERAGE:.0%}: five do")


def ours_first(pair: int) -> bool:
    """None begins, ours, ours, none.

    Strict alternation would go with the requests where every second pair has the same.
    """
    return pair % 4 in (1, 2)


def rounds_of(rows: list[Exchange], batch: int, count: int) -> Iterator[tuple[list[Exchange], bool]]:
    """The requests of each round, and whether they begin anew: before text would be met again."""
    at = len(rows)
    for _ in range(count):
        if is_new := at + batch > len(rows):
            at = 0
        yield [rows[(at + number) % len(rows)] for number in range(batch)], is_new
        at += batch


def timed(arms: tuple[Arm, Arm], picked: list[Exchange], pair: int) -> tuple[float, float]:
    """Milliseconds a token without and with lookahead."""
    plain, ours = arms
    order = (ours, plain) if ours_first(pair) else arms
    ms = {arm.name: arm.ask("run", picked, OUTPUT_TOKENS, True)["ms"] for arm in order}
    return ms[plain.name], ms[ours.name]


def measure(arms: tuple[Arm, Arm], name: str, rows: list[Exchange], batch: int) -> dict[str, Any]:
    """All pairs of one workload at one batch."""
    ours = arms[1]
    times: list[tuple[float, float]] = []
    before = ours.ask("call", "figures")
    for pair, (picked, is_new) in enumerate(rounds_of(rows, batch, PAIRS.get(name, PAIRS_ELSE))):
        if is_new:
            ours.ask("run", LAST, 2, True)  # with this step the requests before it end
            ours.ask("call", "back", name)
        times.append(timed(arms, picked, pair))
    after = ours.ask("call", "figures")
    ratios = [with_ / without for without, with_ in times]
    upper, coverage = upper_of_median(ratios)
    counts = {key: after[key] - before[key] for key in after}
    return {
        "workload": name, "batch": batch, "none_ms": statistics.median(one for one, _ in times),
        "lookahead_ms": statistics.median(two for _, two in times), "ratio": statistics.median(ratios),
        "ratio_upper": upper, "coverage": coverage, "pairs": times,
        "hit_len_per_iter": counts["hit_len"] / max(1.0, counts["num_iters"]),
        "drafted_per_iter": counts["lookahead_len"] / max(1.0, counts["num_iters"]),
        "wait_us": counts["wait_us"] / max(1, counts["steps"]), "missed": counts["missed"], "lost": counts["lost"],
        "released": counts["released"], "in_time": counts["in_time"] / max(1, counts["in_time"] + counts["later"]),
    }  # fmt: skip


def measured(
    arms: tuple[Arm, Arm], found: dict[str, tuple[list[Exchange], list[Exchange]]], batches: Sequence[int], until: float
) -> Iterator[dict[str, Any]]:
    """Workload by workload, as far as the time goes."""
    for name, (seen, rows) in found.items():
        if time.monotonic() > until:
            return
        arms[1].ask("run", LAST, 2, True)
        arms[1].ask("call", "base", name, seen)
        for batch in batches:
            if time.monotonic() > until:
                return
            yield measure(arms, name, rows, batch)


def common() -> dict[str, Any]:
    """Options of both engines."""
    model = Path(TEMP, "lookahead-shape")
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(SHAPE))
    return {
        "model": str(model), "load_format": "dummy", "dtype": "bfloat16", "quantization": "fp8_per_channel",
        "max_model_len": 2048, "max_num_seqs": 64, "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.4,
        "kv_cache_memory_bytes": 6 << 30, "logits_processors": ["forced:Forced"],
    }  # fmt: skip


def ours(tokens: int, options: dict[str, Any], worker: str = "bench_worker.BenchWorker", after: str = "") -> Arm:
    """The engine with lookahead; its kernels are timed when the file `after` is there."""
    config = Path(TEMP, "lookahead-config")
    config.mkdir(exist_ok=True)
    (config / "lookahead_cache_config.json").write_text(json.dumps({"cache_size": 500_000, "copy_length": tokens}))
    words, variables = lookahead(tokens, str(config))
    variables |= {"LOOKAHEAD_AFTER": after}
    variables |= {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-ours"}
    return Arm("lookahead", {**options, **words, "worker_cls": worker}, variables)


def arms_of(tokens: int) -> tuple[Arm, Arm]:
    """The engine without and the one with lookahead, loaded beside one another."""
    ready = Path(TEMP, "lookahead-none-ready")
    plain = Arm("none", common(), {"VLLM_CACHE_ROOT": f"{TEMP}/vllm-none"})
    other = ours(tokens, common(), after=str(ready))
    plain.start()
    other.start()
    plain.answer()
    ready.touch()
    other.answer()
    return plain, other


def main() -> None:
    """As many rows as fit into the time; the file is written after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workloads", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=430)
    parser.add_argument("--tokens", type=int, default=6)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--batches", type=lambda text: [int(one) for one in text.split(",")], default=BATCHES)
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    found = workloads(arguments.workloads)
    if unknown := [name for name in arguments.only if name not in found]:
        parser.error(f"--only names {', '.join(unknown)}; there are: {', '.join(found)}")
    arms = arms_of(arguments.tokens)
    print(f"engines ready, {until - time.monotonic():.0f} s left", flush=True)
    for arm in arms:  # what compiles at its first use
        if arm.name != "none":
            arm.ask("call", "base", "warm-up", [])
        for batch in arguments.batches:
            arm.ask("run", found["gsm8k"][1][:batch], 24, True)
    asked = {name: found[name] for name in arguments.only or found}
    results: list[dict[str, Any]] = []
    for one in measured(arms, asked, arguments.batches, until):
        results.append(one)
        arguments.out.write_text(json.dumps(results))
        shown = {key: value for key, value in one.items() if key != "pairs"}
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in shown.items()}, flush=True)
    for arm in arms:
        arm.end()


if __name__ == "__main__":
    main()
