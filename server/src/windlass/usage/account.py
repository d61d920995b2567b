"""What the guard does about a key's limits and usage: one account for each request that occupies the engine."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.api.asgi import Answer, Send
from windlass.api.key_document import Key
from windlass.api.refusal import Headers
from windlass.limits.limiter import Expected, Limiter, Slot
from windlass.usage.counters import NO_KEY, Place, Total
from windlass.usage.journal import Journals
from windlass.usage.meter import Meter, Outcome
from windlass.usage.read import Tokens


@dataclass(frozen=True, slots=True)
class Record:
    """One answered request."""

    key: str
    model: str
    tokens: Tokens
    estimated: bool


class Accounts:
    """All requests' accounts."""

    def __init__(self, limiter: Limiter, journals: Journals) -> None:
        """Nothing is used yet."""
        self.limiter, self.journals = limiter, journals
        self.totals: dict[Place, Total] = {}

    async def begin(self, key: Key, body_bytes: int) -> Account:
        """Begin a request; refuses with 429 over a limit."""
        slot = await self.limiter.enter(key, body_bytes)
        return Account(self, key.name, body_bytes, slot)

    def add(self, record: Record) -> None:
        """Count an answered request."""
        total = self.totals.setdefault((record.key, record.model), Total())
        total.add(record.tokens, estimated=record.estimated)
        self.journals.add(record.key, record.model, record.tokens, estimated=record.estimated)


class Account:
    """One request's."""

    def __init__(self, accounts: Accounts, key: str, body_bytes: int, slot: Slot | None) -> None:
        """It has begun."""
        self._accounts, self._key, self._bytes, self._slot = accounts, key, body_bytes, slot
        self._expected: Expected = accounts.limiter.expected(key)
        self._meter: Meter | None = None
        self._model = ""

    @property
    def headers(self) -> Headers:
        """What every answer says of the limits."""
        return self._slot.headers if self._slot else ()

    def watch(self, send: Answer, model: str, *, hides_usage: bool) -> Send:
        """The `send` for the engine's answer."""
        self._model = model
        self._meter = Meter(send, self._answered, hides_usage=hides_usage)
        return self._meter

    def end(self) -> None:
        """The request is over, answered or not."""
        if self._meter:
            self._meter.end()
        if self._slot:
            self._slot.end(0)

    def _answered(self, outcome: Outcome) -> None:
        tokens, estimated = outcome.tokens, outcome.tokens is None
        if tokens is None:
            tokens = Tokens(self._expected.tokens_in(self._bytes), outcome.events)
        else:
            self._expected.learn(self._bytes, tokens.in_, tokens.out)
        self._accounts.add(Record(self._key or NO_KEY, self._model, tokens, estimated))
        if self._slot:
            # Where neither the engine nor a stream says how long the answer was, what was expected stays counted.
            self._slot.end(None if estimated and not outcome.events else tokens.in_ + tokens.out)
