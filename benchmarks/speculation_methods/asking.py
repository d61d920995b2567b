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
PARTS = ("text", "log-probabilities", "structured", "rules", "at once", "repeated")
TEXTS = ("new", "half", "repeated")
"""What a load's answers have: nothing that was answered before, a recorded answer's end and as much new text, or a
recorded answer."""
OVERLAP = 8
"""Tokens of a recorded answer at the end of a prompt, which its answer goes on from."""
LIMIT_S = 600
NEAR = 1e-2
"""How far two log-probabilities are apart that count as equal, in bfloat16."""
TIE = 1 / 16
"""A first and a second token by a schema that are no farther apart are a tie, in bfloat16 below logits of 16."""
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
    ranked = {"logprobs": 2, "return_tokens_as_token_ids": True}
    text = [_ask(url, one, greedy) for one in asked]
    again = [[*one, *_tokens(answer)[:OVERLAP]] for one, answer in zip(asked, text, strict=True)]
    return {
        "text": text,
        "log-probabilities": [_ask(url, one, {**greedy, "logprobs": 2}) for one in asked[:4]],
        "structured": [_ask(url, one, {**greedy, **schema, **ranked, "ignore_eos": False}) for one in asked[:4]],
        "rules": [_ask(url, *one) for one in ruled(asked[:4], [_tokens(answer) for answer in text], greedy)],
        "at once": asyncio.run(_all(url, asked, greedy)),
        "repeated": asyncio.run(_all(url, again, greedy)),
    }


def ruled(asked: list[list[int]], texts: list[list[int]], greedy: dict[str, Any]) -> list[tuple[list[int], Answer]]:
    """Questions whose answers a rule of sampling changes at a drafted place, or that `min_p` makes greedy.

    The prompt of `no_repeat_ngram_size` has the greedy answer already, so its fourth token would end an n-gram that was
    there. `min_p` of 1 leaves the likeliest token alone, whatever the temperature.
    """
    found: list[tuple[list[int], Answer]] = []
    for prompt, text in zip(asked, texts, strict=False):
        banned = {str(token): -100 for token in text[2:12:3]}
        found += [
            ([*prompt, *text[:24], *prompt[-2:]], {**greedy, "no_repeat_ngram_size": 4}),
            (prompt, {**greedy, "logit_bias": banned}),
            (prompt, {**greedy, "temperature": 1.0, "min_p": 1.0}),
        ]
    return found


def unlike(wanted: dict[str, list[Answer]], found: dict[str, list[Answer]]) -> dict[str, Any]:
    """By part: how many answers differ, of how many; and the farthest log-probability where tokens agree.

    `ties` has, of each pair by the schema that differs, how far the first token lay from the second without drafts.
    """
    row: dict[str, Any] = {}
    for part in PARTS:
        pairs = list(zip(wanted[part], found[part], strict=True))
        row[part] = [sum(_tokens(one) != _tokens(other) for one, other in pairs), len(pairs)]
    row["ties"] = [_gap(one, other) for one, other in zip(wanted["structured"], found["structured"], strict=True)]
    row["ties"] = [gap for gap in row["ties"] if gap is not None]
    values = zip_longest(*(map(_logprobs, (wanted, found))), fillvalue=0.0)
    row["log-probability apart"] = round(max((abs(one - other) for one, other in values), default=0.0), 6)
    return row


def is_equal(row: dict[str, Any]) -> bool:
    """Whether no answer differs, but for a schema's at a near-tie."""
    strict = [part for part in PARTS if part != "structured"]
    is_same = not any(row[part][0] for part in strict) and row["log-probability apart"] <= NEAR
    return is_same and all(gap <= TIE for gap in row["ties"])


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


def _gap(wanted: Answer, found: Answer) -> float | None:
    """How far the two likeliest tokens are apart where two answers begin to differ; None where they do not."""
    pairs = zip_longest(_tokens(wanted), _tokens(found))
    at = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
    if at is None:
        return None
    likeliest = sorted(wanted["logprobs"]["top_logprobs"][at].values(), reverse=True)
    return round(likeliest[0] - likeliest[1], 4)


def _logprobs(found: dict[str, list[Answer]]) -> list[float]:
    return [value for one in found["log-probabilities"] for value in one["logprobs"]["token_logprobs"]]
