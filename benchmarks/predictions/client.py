"""The client of a measurement: streams completions of token ids, and what the times of their pieces say.

vLLM's own client wants a tokenizer that reads back what it draws. Shapes have none, so prompts are ids.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

NAME = "shape"
IDS = 20_000
"""Prompts are drawn from the first ids, which every vocabulary has."""


@dataclass(slots=True)
class Request:
    """Its length in tokens, and when its tokens came, in seconds of the clock."""

    tokens_in: int
    tokens_out: int
    begun: float = 0.0
    came: list[float] = field(default_factory=list)


def drawn(count: int, mean_in: int, mean_out: int, seed: int) -> list[Request]:
    """Lengths from half to one and a half times the mean, evenly, in an order of chance."""
    chance = random.Random(seed)  # noqa: S311 - draws a load, no secret
    parts = [0.5 + place / max(1, count - 1) for place in range(count)] if count > 1 else [1.0]
    first, second = chance.sample(parts, count), chance.sample(parts, count)
    return [Request(round(a * mean_in), max(2, round(b * mean_out))) for a, b in zip(first, second, strict=True)]


async def ask(http: aiohttp.ClientSession, request: Request, ids: list[int]) -> None:
    """Stream one completion; two tokens in one piece count as two at that time."""
    body = {"model": NAME, "prompt": ids, "max_tokens": request.tokens_out, "min_tokens": request.tokens_out}
    body |= {"ignore_eos": True, "temperature": 0, "stream": True}
    request.begun = time.perf_counter()
    async with http.post("/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for piece in answer.content.iter_any():
            now = time.perf_counter()
            request.came += [now] * piece.count(b'"text"')


async def load(url: str, requests: Sequence[Request], clients: int, seed: int) -> tuple[float, float]:
    """Each client takes the next request when it has its answer; when the first began and the last was taken."""
    chance = random.Random(seed)  # noqa: S311 - as above
    left = [(one, [chance.randrange(10, IDS) for _ in range(one.tokens_in)]) for one in requests]
    left.reverse()
    taken = begun = time.perf_counter()

    async def client(http: aiohttp.ClientSession) -> None:
        nonlocal taken
        while left:
            request = left.pop()
            taken = time.perf_counter()
            await ask(http, *request)

    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=limits, timeout=aiohttp.ClientTimeout(120)) as http:
        await asyncio.gather(*(client(http) for _ in range(clients)))
    return begun, taken


def of_load(requests: Sequence[Request], begun: float, taken: float) -> dict[str, Any]:
    """Figures of a load: times in ms, and the rate while every client was busy."""
    gaps = [b - a for one in requests for a, b in zip(one.came, one.came[1:], strict=False)]
    tpot = [(one.came[-1] - one.came[0]) / (one.tokens_out - 1) for one in requests]
    ttft = [one.came[0] - one.begun for one in requests]
    last = max(one.came[-1] for one in requests)
    until = taken if taken - begun > (last - begun) / 2 else last
    tokens = sum(came <= until for one in requests for came in one.came)
    mean_out = statistics.fmean(one.tokens_out for one in requests)
    return {
        "requests": len(requests),
        "tokens_in": round(statistics.fmean(one.tokens_in for one in requests), 1),
        "tokens_out": round(mean_out, 1),
        **spread("ttft", ttft),
        **spread("tpot", tpot),
        "itl_ms_median": ms(statistics.median(gaps)),
        "requests_per_s": round(tokens / (until - begun) / mean_out, 4),
        "whole_s": round(last - begun, 3),
        "short": sum(len(one.came) != one.tokens_out for one in requests),
    }


def spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median and 99th percentile."""
    ranked = sorted(seconds)
    last = ranked[max(0, math.ceil(0.99 * len(ranked)) - 1)]
    values = {"mean": statistics.fmean(ranked), "median": statistics.median(ranked), "p99": last}
    return {f"{name}_ms_{kind}": ms(value) for kind, value in values.items()}


def ms(seconds: float) -> float:
    """Milliseconds, to the microsecond."""
    return round(1000 * seconds, 3)
