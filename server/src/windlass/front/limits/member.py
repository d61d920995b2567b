"""One replica of a service in the protocol that holds limits. Pure: messages and the time go in, messages come out.

The oldest replica that is connected decides every limited request; each other replica asks it. Each replica tells all
others what it wrote into its ledger, so that the next oldest goes on with the same counts when the oldest is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from windlass.front.key_document import Limits
from windlass.front.limits.decide import Verdict, judge
from windlass.front.limits.ledger import AHEAD_S, WINDOW_S, Ledger, Row

Message: TypeAlias = Mapping[str, Any]
ASK, ANSWER, NOT_ME, STATE = "ask", "answer", "not-me", "state"


@dataclass(frozen=True, order=True, slots=True)
class Identity:
    """A replica; the oldest one is the least."""

    born: float
    id: str


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that wants to begin."""

    key: str
    limits: Limits
    tokens: int = 0
    """What it is expected to use, in and out."""


class Member:
    """One replica's view of all."""

    def __init__(self, identity: Identity) -> None:
        """Alone."""
        self.identity = identity
        self.known = 1
        """Replicas that there may be, those without a connection too."""
        self.ledger = Ledger()
        self._peers: dict[str, Identity] = {}
        self._running_there: dict[str, Counter[str]] = {}
        self._running: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._changed: dict[tuple[str, int], Row] = {}
        self._changed_running: set[str] = set()

    @property
    def keeper(self) -> str:
        """Who decides: the id of the oldest."""
        return min([self.identity, *self._peers.values()]).id

    @property
    def is_keeper(self) -> bool:
        """Whether this replica decides."""
        return self.keeper == self.identity.id

    def connected(self, identity: Identity) -> Message:
        """A replica can be reached; what it is told first."""
        self._peers[identity.id] = identity
        return self._state(list(self.ledger.rows()), {*self._running, *self._asked})

    def lost(self, id_: str) -> None:
        """A replica cannot be reached any more."""
        self._peers.pop(id_, None)

    def silent(self, id_: str) -> None:
        """A replica says nothing any more: what it ran has ended."""
        self._running_there.pop(id_, None)

    def decide(self, wish: PendingRequest, now: float) -> Verdict:
        """Decide a request of our own, as the keeper."""
        return self._decide(wish, now, self._running_of_all(wish.key), lambda: self._begin(wish.key))

    def decide_alone(self, wish: PendingRequest, now: float) -> Verdict:
        """Decide without the keeper: within an equal share of the limits, and within all that is known to be used."""
        shared = _part(wish.limits, 1, self.known)
        own = Ledger()
        own.merge((row for row in self.ledger.rows() if row[1] == self.identity.id), now)
        verdict = judge(shared, own, wish.key, now, running=self._running[wish.key], tokens=wish.tokens)
        return self.decide(wish, now) if verdict.may_begin else verdict

    def ask(self, wish: PendingRequest, number: int) -> Message:
        """The question to the keeper."""
        self._asked[wish.key] += 1
        running = self._running[wish.key] + self._asked[wish.key]
        limits = list(wish.limits.row)
        return {"is": ASK, "n": number, "key": wish.key, "limits": limits, "tokens": wish.tokens, "running": running}

    def unasked(self, key: str) -> None:
        """The question has no answer."""
        self._asked[key] -= 1
        self._changed_running.add(key)

    def take_verdict(self, key: str, message: Message, now: float) -> Verdict:
        """What the keeper said; its cell counts here too, in case it is gone before it tells everybody."""
        self.ledger.merge([tuple(row) for row in message["rows"]], now)
        self._asked[key] -= 1
        self._changed_running.add(key)
        verdict = Verdict.of(message["verdict"])
        if verdict.may_begin:
            self._begin(key)
        return verdict

    def end(self, wish: PendingRequest, second: int, tokens: int, now: float) -> None:
        """A request of ours has ended and used so many tokens; the expected ones of `second` are put right."""
        self._running[wish.key] -= 1
        self._changed_running.add(wish.key)
        over = tokens - wish.tokens
        is_seen = int(now) - WINDOW_S <= second <= now + AHEAD_S
        if over and wish.limits.tokens is not None and (is_seen or over > 0):
            self._write(wish.key, second if is_seen else int(now), 0, over)

    def receive(self, sender: str, message: Message, now: float) -> Message | None:
        """A message of a replica, and what it is answered at once."""
        if message["is"] == STATE:
            self.ledger.merge([tuple(row) for row in message["rows"]], now)
            there = self._running_there.setdefault(sender, Counter())
            for key, count in message["running"].items():
                there[key] = count
            return None
        if not self.is_keeper:
            return {"is": NOT_ME, "n": message["n"]}
        return self._answer(sender, message, now)

    def news(self) -> Message | None:
        """What everybody is told since the last time; None for nothing."""
        if not self._changed and not self._changed_running:
            return None
        message = self._state(list(self._changed.values()), self._changed_running)
        self._changed, self._changed_running = {}, set()
        return message

    def _answer(self, sender: str, message: Message, now: float) -> Message:
        key = str(message["key"])
        wish = PendingRequest(key, Limits(*message["limits"]), int(message["tokens"]))
        there = self._running_there.setdefault(sender, Counter())
        there[key] = int(message["running"]) - 1
        verdict = self._decide(wish, now, self._running_of_all(key), lambda: there.update({key: 1}))
        row = self._changed.get((key, int(now)))
        return {"is": ANSWER, "n": message["n"], "verdict": asdict(verdict), "rows": [row] if row else []}

    def _decide(self, wish: PendingRequest, now: float, running: int, begin: Callable[[], None]) -> Verdict:
        limits = _part(wish.limits, 1 + len(self._peers), self.known)
        verdict = judge(limits, self.ledger, wish.key, now, running=running, tokens=wish.tokens)
        if verdict.may_begin:
            self._write(wish.key, verdict.second, 1, wish.tokens if wish.limits.tokens is not None else 0)
            begin()
        return verdict

    def _running_of_all(self, key: str) -> int:
        return self._running[key] + sum(there[key] for there in self._running_there.values())

    def _begin(self, key: str) -> None:
        self._running[key] += 1
        self._changed_running.add(key)

    def _write(self, key: str, second: int, requests: int, tokens: int) -> None:
        self._changed[key, second] = self.ledger.add(key, self.identity.id, second, requests, tokens)

    def _state(self, rows: list[Row], keys: set[str]) -> Message:
        running = {key: self._running[key] + self._asked[key] for key in keys}
        return {"is": STATE, "rows": rows, "running": running}


def _part(limits: Limits, here: int, known: int) -> Limits:
    """What so many of the replicas may grant: those that cannot be reached may grant the rest."""
    if here >= known:
        return limits
    return Limits(*(limit and max(1, limit * here // known) for limit in limits.row))
