"""The engine's counters against sums over a trace's hashes, and the memory of a process over many replacements."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import wide
from engines import started
from setting import Cache, Setting, one_engine
from traces import Request, common, drawn, read

BLOCK, CHUNK, EVERY_BLOCKS = 16, 256, 100
LAYERS, LONGEST, REQUESTS, TOGETHER = 2, 8000, 60, 6
"""Of the model for counts; tokens of a prompt; requests in all, and between two resets of the card's cache."""
METRICS = ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits")
MEMORY_BYTES, PROMPT, NEW, TIMES = 4 << 30, 4096, 4, 20
STORED = "vllm:kv_offload_store_bytes"


def counts(setting: Setting, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row: three sums by hand and by the engine, and the lines of the hit count."""
    if any(row["what"] == "counts" for row in done) or setting.left_s() < 40:
        return
    words = {"dtype": "bfloat16", "max_model_len": LONGEST + 64}
    cache = Cache(TOGETHER * (LONGEST + 64), 12 << 30, LAYERS, {"windlass_hit_count": True})
    engine = one_engine(setting, "counts", words, cache)
    if not started([engine]):
        yield {"what": "counts", "failed": True}
        return
    requests = [one for one in drawn(read(setting.trace), 4 * REQUESTS, 900, 1) if one.length <= LONGEST][:REQUESTS]
    before = engine.ask("counted")
    for at, one in enumerate(requests):
        if at % TOGETHER == 0:
            engine.ask("token", [7])  # whatever is copied still is done by the end of a step
            engine.ask("reset", False)
        engine.ask("token", one.tokens(wide.FIRST, wide.WORDS))
    after, lines = engine.ask("counted"), engine.ask("hit_lines")
    engine.end()
    sums, expected = by_hand(requests)
    found = [int(after.get(name, 0) - before.get(name, 0)) for name in METRICS]
    yield {"what": "counts", "requests": len(requests), "asked, card, host": found, "by hand": sums,
           "lines": len(lines), "lines by hand": len(expected), "equal lines": lines == expected,
           "last": lines[-1:], "last by hand": expected[-1:]}  # fmt: skip


def by_hand(requests: Sequence[Request]) -> tuple[list[int], list[str]]:
    """From the trace alone: tokens asked for, on the card, in host memory; and the lines that are due.

    On the card is what a prompt since the last reset began with, in whole blocks; in host memory what any earlier
    prompt began with, in whole chunks. The prompt's last token is always computed.
    """
    asked = card = host = 0
    lines: list[str] = []
    for at, one in enumerate(requests):
        since = at - at % TOGETHER
        steps = [(1, 0, 0)] if at == since else []
        near = max((common(one, other) for other in requests[since:at]), default=0)
        ever = max((common(one, other) for other in requests[:at]), default=0)
        on_card = min(near, one.length - 1) // BLOCK * BLOCK
        steps.append((one.length, on_card, max(0, ever // CHUNK * CHUNK - on_card)))
        for tokens, here, there in steps:
            before = asked // BLOCK // EVERY_BLOCKS
            asked, card, host = asked + tokens, card + here, host + there
            if asked // BLOCK // EVERY_BLOCKS > before:
                lines.append(_line(asked // BLOCK, card // BLOCK, host // BLOCK))
    return [asked, card, host], lines


def _line(total: int, card: int, host: int) -> str:
    rest = total - card - host
    gpu, cpu, not_hit = (f"{part} ({part / total:.2%})" for part in (card, host, rest))
    return f"[HIT CNT] total: {total}, gpu: {gpu} cpu: {cpu} not hit: {not_hit}"


def memory(setting: Setting, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The process's memory until host memory was replaced 20 times; some prompts come back, so the gate stays open."""
    if any(row["what"] == "memory" and row.get("replaced", 0) >= TIMES for row in done) or setting.left_s() < 40:
        return
    words = {"dtype": "bfloat16", "max_model_len": PROMPT + 64}
    engine = one_engine(setting, "memory", words, Cache(2 * (PROMPT + 64), MEMORY_BYTES))
    if not started([engine]):
        yield {"what": "memory", "failed": True}
        return
    chance, earlier = random.Random(23), [[0] * PROMPT]  # noqa: S311 - no secret
    shown = -1
    while setting.left_s() > 10:
        new = [[chance.randrange(wide.FIRST, wide.FIRST + wide.WORDS) for _ in range(PROMPT)] for _ in range(NEW)]
        for prompt in (*new, earlier[0]):
            engine.ask("churn", [prompt])
        earlier = new
        counted = engine.ask("counted")
        replaced = int(counted.get(STORED, 0) / MEMORY_BYTES)
        if replaced > shown:
            shown = replaced
            yield {"what": "memory", "replaced": replaced, **engine.ask("memory"), **counted}
        if replaced > TIMES or not counted.get(STORED):
            break
    engine.end()
