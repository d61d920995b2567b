"""Whether a key may begin one more request. Pure; the one place where limits are compared with what is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.front.key_document import Limits
from windlass.front.limits.ledger import Ledger, Used

LONGEST_RETRY_S = 61.0
BUSY_RETRY_S = 1.0
"""A running request ends some time; nobody knows when."""


UNUSED = Used()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a request hears, and what its headers say."""

    over: str = ""
    """The limit that is reached: requests, tokens or concurrency; empty when the request may begin."""
    used: Used = UNUSED
    retry_s: float = 0.0
    reset_s: tuple[float, float] = (0.0, 0.0)
    """Until all of requests and of tokens is free again."""
    second: int = 0
    """The second that the request counts in."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Verdict:
        """The verdict that another process sent (`asdict`)."""
        return cls(**{**row, "used": Used(**row["used"]), "reset_s": tuple(row["reset_s"])})

    @property
    def may_begin(self) -> bool:
        """Whether no limit is reached."""
        return not self.over


def judge(limits: Limits, ledger: Ledger, key: str, now: float, *, running: int, tokens: int) -> Verdict:
    """Compare; a request that alone is over the limit of tokens begins when nothing else is used."""
    requests_used, tokens_used = ledger.used(key, now)
    used = Used(requests_used, tokens_used, running)
    reset = ledger.wait_s(key, now, requests_used, 0), ledger.wait_s(key, now, 0, tokens_used)
    if limits.concurrency is not None and running >= limits.concurrency:
        return Verdict("concurrency", used, BUSY_RETRY_S, reset)
    if limits.requests is not None and requests_used >= limits.requests:
        return Verdict("requests", used, ledger.wait_s(key, now, requests_used - limits.requests + 1, 0), reset)
    needed = min(tokens, limits.tokens or 0)
    if limits.tokens is not None and tokens_used + needed > limits.tokens:
        return Verdict("tokens", used, ledger.wait_s(key, now, 0, tokens_used + needed - limits.tokens), reset)
    return Verdict("", used, 0.0, reset, int(now))
