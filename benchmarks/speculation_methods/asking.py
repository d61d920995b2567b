"""What each server is asked: equal answers, and how fast it decodes. The same questions for every method."""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import time
from itertools import zip_longest
from typing import Any

import httpx
from servers import NAME

PROMPTS, PROMPT_TOKENS = 12, 40
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Anna", "Ben", "Carla"]}, "open": {"type": "boolean"}},
    "required": ["name", "open"],
    "additionalProperties": False,
}
PARTS = ("text", "log-probabilities", "structured", "at once", "repeated")
TEXTS = ("new", "half", "repeated")
"""What a load's answers have: nothing that was answered before, a recorded answer's end and as much new text, or a
recorded answer."""
OVERLAP = 8
"""Tokens of a recorded answer at the end of a prompt, which its answer goes on from."""
LIMIT_S = 600
NEAR = 1e-2
"""How far two log-probabilities are apart that count as equal, in bfloat16."""
COUNTERS = ("drafts", "draft_tokens", "accepted_tokens")
Answer = dict[str, Any]


def prompts(vocabulary: int, count: int, tokens: int, seed: int = 34) -> list[list[int]]:
    """Random tokens: nothing repeats, so the lookahead cache has nothing of its own to draft from."""
    chance = random.Random(seed)  # noqa: S311 - draws a load, no secret
    return [[chance.randrange(3, vocabulary) for _ in range(tokens)] for _ in range(count)]


def answers(url: str, vocabulary: int, tokens: int) -> dict[str, list[Answer]]:
    """By part: the greedy answers of a server, one at a time, and all of them at once."""
    asked = prompts(vocabulary, PROMPTS, PROMPT_TOKENS)
    greedy: dict[str, Any] = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    schema = {
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA, "strict": True}}
    }
    text = [_ask(url, one, greedy) for one in asked]
    again = [[*one, *_tokens(answer)[:OVERLAP]] for one, answer in zip(asked, text, strict=True)]
    return {
        "text": text,
        "log-probabilities": [_ask(url, one, {**greedy, "logprobs": 2}) for one in asked[:4]],
        "structured": [_ask(url, one, {**greedy, **schema, "ignore_eos": False}) for one in asked[:4]],
        "at once": asyncio.run(_all(url, asked, greedy)),
        "repeated": asyncio.run(_all(url, again, greedy)),
    }


def unlike(wanted: dict[str, list[Answer]], found: dict[str, list[Answer]]) -> dict[str, Any]:
    """By part: how many answers differ, of how many; and the farthest log-probability where tokens agree."""
    row: dict[str, Any] = {}
    for part in PARTS:
        pairs = list(zip(wanted[part], found[part], strict=True))
        row[part] = [sum(_tokens(one) != _tokens(other) for one, other in pairs), len(pairs)]
    values = zip_longest(*(map(_logprobs, (wanted, found))), fillvalue=0.0)
    row["log-probability apart"] = round(max((abs(one - other) for one, other in values), default=0.0), 6)
    return row


def is_equal(row: dict[str, Any]) -> bool:
    """Whether no answer differs."""
    return not any(row[part][0] for part in PARTS) and row["log-probability apart"] <= NEAR


def load(url: str, vocabulary: int, text: str, clients: int, tokens: int, run: int) -> list[list[int]]:
    """Prompts whose answers have such text; no two runs have the same. What is recorded is asked here, unmeasured."""
    seed = 1000 * (3 * run + TEXTS.index(text)) + clients
    fresh = prompts(vocabulary, clients, PROMPT_TOKENS, seed)
    if text == "new":
        return fresh
    greedy = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    recorded = asyncio.run(_all(url, prompts(vocabulary, clients, PROMPT_TOKENS, seed + 500), greedy))
    until = OVERLAP if text == "repeated" else tokens // 2
    return [
        [*one[OVERLAP:], *_tokens(answer)[until - OVERLAP : until]] for one, answer in zip(fresh, recorded, strict=True)
    ]


def speed(url: str, asked: list[list[int]], tokens: int) -> dict[str, Any]:
    """Tokens a second of these requests beside one another, ms a token of each, and what was accepted."""
    clients = len(asked)
    before, begun = counters(url), time.perf_counter()
    streams = asyncio.run(_streamed(url, asked, tokens))
    spent, after = time.perf_counter() - begun, counters(url)
    row: dict[str, Any] = {name: after[name] - before[name] for name in COUNTERS}
    each = [1000 * (last - first) / (tokens - 1) for first, last in streams]
    return {
        "clients": clients,
        "tokens a second": round(clients * tokens / spent, 2),
        "ms a token": round(statistics.median(each), 3),
        "accepted of drafted": round(row["accepted_tokens"] / row["draft_tokens"], 4) if row["draft_tokens"] else None,
        "tokens a step": round(1 + row["accepted_tokens"] / row["drafts"], 3) if row["drafts"] else None,
    }


def counters(url: str) -> dict[str, float]:
    """The engine's counts of drafts."""
    text = httpx.get(f"{url}/metrics", timeout=30).text
    found = {name: re.search(rf"^vllm:spec_decode_num_{name}(?:_total)?{{.*}} (\S+)$", text, re.M) for name in COUNTERS}
    return {name: float(one[1]) if one else 0.0 for name, one in found.items()}


def _body(prompt: list[int], fields: dict[str, Any]) -> dict[str, Any]:
    return {"model": NAME, "prompt": prompt, "return_token_ids": True, **fields}


def _ask(url: str, prompt: list[int], fields: dict[str, Any]) -> Answer:
    answer = httpx.post(f"{url}/v1/completions", json=_body(prompt, fields), timeout=LIMIT_S)
    answer.raise_for_status()
    return dict(answer.json()["choices"][0])


async def _all(url: str, asked: list[list[int]], fields: dict[str, Any]) -> list[Answer]:
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S) as http:
        found = await asyncio.gather(*(http.post("/v1/completions", json=_body(one, fields)) for one in asked))
    return [dict(one.raise_for_status().json()["choices"][0]) for one in found]


async def _streamed(url: str, asked: list[list[int]], tokens: int) -> list[tuple[float, float]]:
    """By request: when its first piece came, and its last."""
    fields = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}

    async def one(http: httpx.AsyncClient, prompt: list[int]) -> tuple[float, float]:
        came: list[float] = []
        async with http.stream("POST", "/v1/completions", json=_body(prompt, fields)) as stream:
            stream.raise_for_status()
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    came.append(time.perf_counter())
        return came[0], came[-1]

    limits = httpx.Limits(max_connections=len(asked))
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S, limits=limits) as http:
        return list(await asyncio.gather(*(one(http, prompt) for prompt in asked)))


def _tokens(answer: Answer) -> list[int]:
    return list(answer["token_ids"])


def _logprobs(found: dict[str, list[Answer]]) -> list[float]:
    return [value for one in found["log-probabilities"] for value in one["logprobs"]["token_logprobs"]]
