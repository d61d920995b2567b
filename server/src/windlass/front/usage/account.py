"""Joins limits and usage for the guard: one account for each request that occupies the engine."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.front.asgi import Send
from windlass.front.key_document import Key
from windlass.front.limits.limiter import Expected, Limiter, Slot
from windlass.front.refusal import Headers
from windlass.front.usage.counters import NO_KEY, Place, Total
from windlass.front.usage.journal import Batch, Journals
from windlass.front.usage.meter import Meter, Outcome
from windlass.front.usage.read import Tokens


@dataclass(frozen=True, slots=True)
class Record:
    """One answered request."""

    key: str
    model: str
    tokens: Tokens
    estimated: bool


class Accounts:
    """Opens an account for each request, and holds the totals of this process."""

    def __init__(self, limiter: Limiter, journals: Journals) -> None:
        """Start with totals of zero."""
        self.limiter, self.journals = limiter, journals
        self.totals: dict[Place, Total] = {}

    async def begin(self, key: Key, body_bytes: int | None) -> Account:
        """Begin a request; refuses with 429 over a limit. `body_bytes` is None for a body of unknown length."""
        slot = await self.limiter.enter(key, body_bytes)
        return Account(self, key.name, body_bytes, slot)

    def add(self, record: Record) -> Batch | None:
        """Count an answered request; done when it is recorded."""
        total = self.totals.setdefault((record.key, record.model), Total())
        total.add(record.tokens, estimated=record.estimated)
        return self.journals.add(record.key, record.model, record.tokens, estimated=record.estimated)


class Account:
    """One request, from its admission to the end of its answer."""

    def __init__(self, accounts: Accounts, key: str, body_bytes: int | None, slot: Slot | None) -> None:
        """`accounts` gets the record; `slot` is the request's share of the key's limits, None without limits."""
        self._accounts, self._key, self._bytes, self._slot = accounts, key, body_bytes, slot
        self._expected: Expected = accounts.limiter.expected(key)
        self._meter: Meter | None = None
        self._model = ""

    @property
    def headers(self) -> Headers:
        """The rate limit headers of the answer."""
        return self._slot.headers if self._slot else ()

    def watch(self, send: Send, model: str, *, body_bytes: int, hides_usage: bool) -> Meter:
        """Wrap `send`: the wrapper reads the token counts of the engine's answer. `body_bytes` are those read."""
        self._model = model
        if self._bytes is None:
            self._bytes = body_bytes
        self._meter = Meter(send, self._record, hides_usage=hides_usage)
        return self._meter

    def end(self) -> None:
        """End the request, with or without an answer."""
        if self._meter:
            self._meter.end()
        if self._slot:
            self._slot.end(0)

    def _record(self, outcome: Outcome) -> Batch | None:
        tokens, estimated = self._counted(outcome)
        if not estimated and tokens.in_:
            self._expected.learn(self._bytes or 0, tokens.in_, tokens.out)
        record = self._accounts.add(Record(self._key or NO_KEY, self._model, tokens, estimated))
        if self._slot:
            # Without a count and without events the length is unknown: the slot keeps the expected number of tokens.
            self._slot.end(None if estimated and not outcome.events else tokens.in_ + tokens.out)
        return record

    def _counted(self, outcome: Outcome) -> tuple[Tokens, bool]:
        """The tokens of the answer, and whether they are estimated."""
        tokens = outcome.tokens
        if tokens and outcome.is_final:
            return tokens, False
        known = tokens or Tokens()
        in_ = known.in_ or self._expected.tokens_in(self._bytes or 0)
        return Tokens(in_, max(known.out, outcome.events), known.cached), True
