"""The client of a measurement: streams completions of token ids, and what the times of their pieces say.

vLLM's own client wants a tokenizer that reads back what it draws. Shapes have none, so prompts are ids.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import time
from collections import deque
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


async def load(url: str, lead: Sequence[Request], counted: Sequence[Request], clients: int, seed: int) -> list[Request]:
    """Every client is busy until the last counted request has its answer; all requests that were begun.

    The requests of `lead` come first: all clients begin at once, which no later request meets. Others like the counted
    ones fill up after these, and are given up in the end.
    """
    chance, begun, finished = random.Random(seed), list[Request](), asyncio.Event()  # noqa: S311 - draws a load, no secret
    waiting, left = deque([*lead, *counted]), {id(one) for one in counted}

    async def client(http: aiohttp.ClientSession) -> None:
        while True:
            like = counted[len(begun) % len(counted)]
            one = waiting.popleft() if waiting else Request(like.tokens_in, like.tokens_out)
            begun.append(one)
            await ask(http, one, [chance.randrange(10, IDS) for _ in range(one.tokens_in)])
            left.discard(id(one))
            if not left:
                finished.set()

    limits = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(url, connector=limits, timeout=aiohttp.ClientTimeout(120)) as http,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(client(http)) for _ in range(clients)]
        await finished.wait()
        for task in tasks:
            task.cancel()
    return begun


def of_load(counted: Sequence[Request], every: Sequence[Request]) -> dict[str, Any]:
    """Figures of the counted requests: times in ms, and the rate of all requests meanwhile."""
    gaps = [b - a for one in counted for a, b in zip(one.came, one.came[1:], strict=False)]
    tpot = [(one.came[-1] - one.came[0]) / (one.tokens_out - 1) for one in counted]
    ttft = [one.came[0] - one.begun for one in counted]
    first, last = min(one.begun for one in counted), max(one.came[-1] for one in counted)
    tokens = sum(first < came <= last for one in every for came in one.came)
    mean_out = statistics.fmean(one.tokens_out for one in counted)
    return {
        "requests": len(counted),
        "tokens_in": round(statistics.fmean(one.tokens_in for one in counted), 1),
        "tokens_out": round(mean_out, 1),
        **spread("ttft", ttft),
        **spread("tpot", tpot),
        "itl_ms_median": ms(statistics.median(gaps)),
        "requests_per_s": round(tokens / (last - first) / mean_out, 4),
        "whole_s": round(last - first, 3),
        "short": sum(len(one.came) != one.tokens_out for one in counted),
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
