"""Limits as the guard asks for them: a key's request begins or is refused, and every answer says what is left."""

from __future__ import annotations

import math
from collections import Counter
from typing import Protocol

from windlass.front.key_document import Key, Limits
from windlass.front.limits.decide import LONGEST_RETRY_S, Verdict
from windlass.front.limits.member import PendingRequest
from windlass.front.refusal import Headers, Refusal

FIRST_TOKENS_A_BYTE = 0.25
FIRST_TOKENS_OUT = 256.0
MEMORY = 0.9
"""How much a mean keeps of its past with each answer."""
WORDS = {
    "requests": "has begun {used} requests in the last minute, its limit is {limit}",
    "tokens": "has used {used} tokens in the last minute, its limit is {limit}, and this request needs some {needed}",
    "concurrency": "runs {used} requests, its limit is {limit} at a time",
}


class Expected:
    """How many tokens a key's next request will use, by its earlier ones."""

    def __init__(self) -> None:
        """Nothing is known of the key."""
        self._a_byte, self._out = FIRST_TOKENS_A_BYTE, FIRST_TOKENS_OUT

    def tokens_in(self, body_bytes: int) -> int:
        """Of the prompt alone."""
        return math.ceil(body_bytes * self._a_byte)

    def of(self, body_bytes: int) -> int:
        """In and out."""
        return math.ceil(body_bytes * self._a_byte + self._out)

    def learn(self, body_bytes: int, tokens_in: int, tokens_out: int) -> None:
        """A request has ended."""
        if body_bytes:
            self._a_byte = MEMORY * self._a_byte + (1 - MEMORY) * tokens_in / body_bytes
        self._out = MEMORY * self._out + (1 - MEMORY) * tokens_out


class Deciding(Protocol):
    """Who decides: this process, with the other replicas, or the owner of several API processes."""

    async def enter(self, wish: PendingRequest) -> Verdict:
        """Whether a request may begin; who may must `end` it."""

    def end(self, wish: PendingRequest, second: int, tokens: int) -> None:
        """A request that began has ended, and used so many tokens."""


class Slot:
    """One request that began; ended once, however often `end` is called."""

    def __init__(self, replicas: Deciding, wish: PendingRequest, verdict: Verdict) -> None:
        """It counts from now on."""
        self._replicas, self._wish, self._verdict = replicas, wish, verdict
        self._is_over = False
        self.headers = headers(wish.limits, verdict, began=wish.tokens)

    def end(self, tokens: int | None) -> None:
        """It is over and used so many tokens; None: as many as expected."""
        if not self._is_over:
            self._is_over = True
            self._replicas.end(self._wish, self._verdict.second, self._wish.tokens if tokens is None else tokens)


class Limiter:
    """All keys' limits."""

    def __init__(self, replicas: Deciding) -> None:
        """Nothing is used yet."""
        self.replicas = replicas
        self.refused: Counter[tuple[str, str]] = Counter()
        """By key and limit."""
        self._expected: dict[str, Expected] = {}

    def expected(self, key: str) -> Expected:
        """What is known of a key's requests."""
        found = self._expected.get(key)
        if found is None:
            found = self._expected[key] = Expected()
        return found

    async def enter(self, key: Key, body_bytes: int | None) -> Slot | None:
        """Begin a request; None when the key has no limit. Refuses with 429 when one is reached."""
        if not key.limits.any:
            return None
        wish = PendingRequest(key.name, key.limits, self._needed(key, body_bytes))
        verdict = await self.replicas.enter(wish)
        if verdict.may_begin:
            return Slot(self.replicas, wish, verdict)
        self.refused[key.name, verdict.over] += 1
        raise refusal(wish, verdict)

    def _needed(self, key: Key, body_bytes: int | None) -> int:
        """The tokens to reserve; a body of unknown length may need the whole limit."""
        limit = key.limits.tokens
        if not limit:
            return 0
        return limit if body_bytes is None else self.expected(key.name).of(body_bytes)


def refusal(wish: PendingRequest, verdict: Verdict) -> Refusal:
    """The 429: which limit, and when to come again."""
    used = {"requests": verdict.used.requests, "tokens": verdict.used.tokens, "concurrency": verdict.used.running}
    limit = {"requests": wish.limits.requests, "tokens": wish.limits.tokens, "concurrency": wish.limits.concurrency}
    over, wait_s = verdict.over, max(1, math.ceil(min(verdict.retry_s, LONGEST_RETRY_S)))
    said = WORDS[over].format(used=used[over], limit=limit[over], needed=wish.tokens)
    message = f'the API key "{wish.key}" {said}; ask again in {wait_s} s'
    return Refusal(429, message, headers=(("retry-after", str(wait_s)), *headers(wish.limits, verdict)))


def headers(limits: Limits, verdict: Verdict, *, began: int | None = None) -> Headers:
    """OpenAI's headers of a limit; `began` are the tokens of a request that has just begun."""
    rows = (
        ("requests", limits.requests, verdict.used.requests + (began is not None), verdict.reset_s[0]),
        ("tokens", limits.tokens, verdict.used.tokens + (began or 0), verdict.reset_s[1]),
    )
    return tuple(
        pair
        for word, limit, used, reset_s in rows
        if limit is not None
        for pair in (
            (f"x-ratelimit-limit-{word}", str(limit)),
            (f"x-ratelimit-remaining-{word}", str(max(0, limit - used))),
            (f"x-ratelimit-reset-{word}", duration(reset_s if began is None else LONGEST_RETRY_S)),
        )
    )


def duration(seconds: float) -> str:
    """A time as OpenAI writes it: 250ms, 6.5s, 1m1s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    whole = math.ceil(seconds)
    return f"{whole // 60}m{whole % 60}s" if whole >= 60 else f"{whole}s"
