"""Who is served next: at most so many at a time, the others in turn by key. Pure; `gate` puts the waiting around it.

A key that floods the server delays itself, not the others: the key with the fewest running requests is served first,
equals in turn, each key's requests in order. A key's share of the places may be limited, so that one is free for the
others. When the waiting room is full, a newcomer takes the place of the newest request of the key that fills it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request; the number makes it unique."""

    number: int
    key: str


class Verdict(Enum):
    """What a newcomer hears."""

    RUN = "run"
    WAIT = "wait"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Answer:
    """The newcomer's verdict, and who lost a waiting place to it."""

    verdict: Verdict
    displaced: Ticket | None = None


class FairQueue:
    """Places that run and places that wait."""

    def __init__(self, run_limit: int, wait_limit: int) -> None:
        """Begin empty."""
        self._run_limit, self._wait_limit = run_limit, wait_limit
        self.key_limit = run_limit
        """Places that one key may run."""
        self._running: set[Ticket] = set()
        self._by_key: Counter[str] = Counter()
        # The order of the keys is the order of service: the first is served, then moves to the end.
        self._lines: dict[str, deque[Ticket]] = {}

    @property
    def running(self) -> int:
        """Requests that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(len(line) for line in self._lines.values())

    def ask(self, ticket: Ticket) -> Answer:
        """Take a place for a newcomer, when there is one."""
        if self.running < self._run_limit and self._by_key[ticket.key] < self.key_limit:
            self._run(ticket)
            return Answer(Verdict.RUN)
        displaced = None
        if self.waiting >= self._wait_limit:
            displaced = self._displace(ticket.key)
            if displaced is None:
                return Answer(Verdict.FULL)
        self._lines.setdefault(ticket.key, deque()).append(ticket)
        return Answer(Verdict.WAIT, displaced)

    def leave(self, ticket: Ticket) -> Ticket | None:
        """Give a place back, running or waiting; the one who runs now instead. A second time does nothing."""
        if ticket in self._running:
            self._running.remove(ticket)
            self._by_key[ticket.key] -= 1
            self._by_key += Counter()  # keys without a running request leave no trace
            return self._next()
        line = self._lines.get(ticket.key, deque())
        if ticket in line:
            line.remove(ticket)
            if not line:
                del self._lines[ticket.key]
        return None

    def clear(self) -> tuple[Ticket, ...]:
        """Send everybody away who waits."""
        waiting = tuple(ticket for line in self._lines.values() for ticket in line)
        self._lines.clear()
        return waiting

    def _next(self) -> Ticket | None:
        below = [key for key in self._lines if self._by_key[key] < self.key_limit]
        if not below:
            return None
        key = min(below, key=self._by_key.__getitem__)
        line = self._lines.pop(key)
        ticket = line.popleft()
        if line:
            self._lines[key] = line
        self._run(ticket)
        return ticket

    def _run(self, ticket: Ticket) -> None:
        self._running.add(ticket)
        self._by_key[ticket.key] += 1

    def _displace(self, key: str) -> Ticket | None:
        longest = max(self._lines.values(), key=len, default=deque[Ticket]())
        mine = len(self._lines.get(key, ()))
        return longest.pop() if len(longest) > mine + 1 else None
