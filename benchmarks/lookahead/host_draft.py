"""Milliseconds of a draft model on the host's cores: of one drafted token by rows, and of one prompt token.

    python benchmarks/lookahead/host_draft.py [--shapes 0.5b,160m,68m] [--threads 1,2,4] [--bits 8,4] [--json FILE]
        [--path avx2] [--processor-time]

Weights are random numbers in the shapes of known models; the wheel and numpy are all that it needs. A drafted token
reads all weights once for all rows, so the last column says how near the machine's memory that comes. `chain` is a
whole draft of four tokens, which begins with two tokens of each row as a fully accepted draft leaves them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from windlass_lookahead._core import DraftModel, DraftWeights
from windlass_lookahead.draft_model import Settings, Shape, bytes_of_weight, native_config, shape_of

QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "rope_theta": 1e6, "max_position_embeddings": 32768}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 768,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 32000,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "0.5b": QWEN2
    | {"num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2}
    | {"intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True},
    "160m": LLAMA | {"num_hidden_layers": 12},
    "68m": LLAMA | {"num_hidden_layers": 2},
}
"""Shapes of Qwen2.5-0.5B, and of Llamas of 160 and 68 million weights."""
ROWS = (1, 4, 16, 64)
CHAIN = 4
PROMPT = 400
POOL = 1 << 24
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Line:
    """What one setting took. `kind`: token (a draft of one), chain (of four), prompt (a token of it)."""

    shape: str
    bits: int
    threads: int
    path: str
    kind: str
    rows: int
    ms: float
    gigabytes_a_second: float


def random_model(shape: Shape, settings: Settings) -> DraftModel:
    """A model of numbers drawn by chance."""
    return DraftModel(random_weights(shape, settings), settings.rows)


def random_weights(shape: Shape, settings: Settings) -> DraftWeights:
    """Numbers drawn by chance, from a pool that all tensors share."""
    chance = np.random.default_rng(0)
    pool = (chance.normal(0, 0.02, POOL).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    weights = DraftWeights(native_config(shape, settings))
    for name in weights.missing:
        sizes = weights.shape(name)
        count = int(np.prod(sizes))
        start = int(chance.integers(POOL // 2))
        numbers = np.resize(pool[start:], count)
        weights.add(name, numbers.view(np.uint8), "BF16", sizes)
    return weights


def bytes_a_pass(shape: Shape, settings: Settings) -> float:
    """Weights that one pass reads."""
    width, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    body = shape.layers * shape.hidden * (2 * width + 2 * keys + 3 * shape.intermediate)
    head = shape.vocabulary * shape.hidden
    return body * bytes_of_weight(settings.body_bits) + head * bytes_of_weight(settings.head_bits)


def begin(model: DraftModel, rows: int, tokens: int, chance: np.random.Generator) -> list[str]:
    """Rows whose prompts are read."""
    keys = [f"row-{row}" for row in range(rows)]
    for key in keys:
        model.begin(key, chance.integers(0, model.vocabulary, tokens))
    while model.work(1e6):
        pass
    return keys


def timed_drafts(model: DraftModel, keys: Sequence[str], k: int, times: int, clock: Clock) -> float:
    """Median ms of a draft whose last one was accepted as a whole."""
    took: list[float] = []
    for _ in range(times):
        began = clock()
        chains = model.draft(keys, k)
        took.append((clock() - began) * 1000)
        for key, chain in zip(keys, chains, strict=True):
            model.append(key, [*chain, 1] if k > 1 else chain)
    return statistics.median(took)


def lines(name: str, settings: Settings, most_rows: int, times: int, clock: Clock) -> Iterator[Line]:
    """All figures of one setting."""
    shape = shape_of(CONFIGS[name])
    model = random_model(shape, settings)
    chance = np.random.default_rng(1)
    size = bytes_a_pass(shape, settings) / 1e9

    def line(kind: str, rows: int, ms: float, passes: int) -> Line:
        rate = size * passes / (ms / 1000)
        return Line(name, settings.body_bits, model.threads, model.path, kind, rows, ms, rate)

    began = clock()
    begin(model, 1, PROMPT, chance)
    yield line("prompt", 1, (clock() - began) * 1000 / PROMPT, 0)
    for rows in (count for count in ROWS if count <= most_rows):
        keys = begin(model, rows, 100, chance)
        yield line("token", rows, timed_drafts(model, keys, 1, times, clock), 1)
        yield line("chain", rows, timed_drafts(model, keys, CHAIN, max(2, times // CHAIN), clock), CHAIN)
        for key in keys:
            model.finish(key)


def numbers(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [int(part) for part in text.split(",")]


def settings_of(options: argparse.Namespace) -> Iterator[tuple[str, Settings]]:
    """Every combination that was asked for."""
    cores = len(os.sched_getaffinity(0))
    counts = numbers(options.threads) if options.threads else [t for t in (1, 2, 4, 8, 16, 32) if t <= cores]
    for name in options.shapes.split(","):
        for bits in numbers(options.bits):
            for threads in counts:
                yield name, Settings(64, 1024, bits, bits, threads, options.path)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(CONFIGS), help=f"of {', '.join(CONFIGS)}")
    parser.add_argument("--threads", default="", help="counts between commas; without it 1, 2, 4 … up to all cores")
    parser.add_argument("--bits", default="8,4", help="bits of a weight")
    parser.add_argument("--path", default="best", help="kernels: best, portable, avx2, vnni or amx")
    parser.add_argument("--rows", type=int, default=64, help="most rows")
    parser.add_argument("--times", type=int, default=12, help="drafts of which the median is shown")
    parser.add_argument("--json", type=Path, help="write the lines to this file too")
    parser.add_argument("--processor-time", action="store_true", help="of all threads: for a machine with other load")
    options = parser.parse_args()
    clock = time.process_time if options.processor_time else time.perf_counter
    found: list[Line] = []
    print(f"{'shape':>6} {'bits':>4} {'threads':>7} {'kernels':>12} {'kind':>7} {'rows':>4} {'ms':>9} {'GB/s':>6}")
    for name, settings in settings_of(options):
        for one in lines(name, settings, options.rows, options.times, clock):
            found.append(one)
            rate = f"{one.gigabytes_a_second:6.1f}" if one.gigabytes_a_second else ""
            print(
                f"{one.shape:>6} {one.bits:>4} {one.threads:>7} {one.path:>12} {one.kind:>7} {one.rows:>4} "
                f"{one.ms:9.3f} {rate}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
