"""Several replicas and their network as events in one heap: the protocol under a clock of the test's own."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from windlass.front.key_document import Limits
from windlass.front.limits.decide import Verdict
from windlass.front.limits.limiter import Expected
from windlass.front.limits.member import ANSWER, Identity, Member, PendingRequest

START_S = 1_000_000.0
NEWS_S, AGAIN_S, ASK_S = 0.005, 0.02, 1.0
BODY_BYTES = 400


@dataclass
class Scene:
    """What is offered, and what happens."""

    replicas: int
    limits: Limits
    weights: tuple[float, ...]
    """Each replica's share of the load."""
    per_second: float
    seconds: float = 122.0
    dies_at: float | None = None
    dies: int = 0
    seed: int = 0
    answer_s: float = 0.5


@dataclass
class Cluster:
    """Runs a scene; `began` has the time and the real tokens of every request that began."""

    scene: Scene
    began: list[tuple[float, int]] = field(default_factory=list)
    most_running: int = 0
    now: float = START_S

    def __post_init__(self) -> None:
        self.chance = random.Random(self.scene.seed)
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order, self.numbers = count(), count(1)
        self.members = [Member(Identity(START_S + row, f"r{row}")) for row in range(self.scene.replicas)]
        self.alive = set(range(self.scene.replicas))
        self.expected = [Expected() for _ in self.members]
        self.waiting: dict[int, Callable[[Verdict | None, dict | None], None]] = {}
        self.last: dict[tuple[int, int], float] = {}
        self.running = 0
        for one in self.members:
            one.known = len(self.members)
            for other in self.members:
                if other is not one:
                    one.connected(other.identity)

    def run(self) -> None:
        """Until the scene is over."""
        self._at(START_S, self._arrive)
        self._at(START_S, self._news)
        if self.scene.dies_at is not None:
            self._at(START_S + self.scene.dies_at, self._die)
        while self.events and self.events[0][0] < START_S + self.scene.seconds:
            self.now, _, happen = heapq.heappop(self.events)
            happen()

    def _at(self, when: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self.events, (when, next(self.order), happen))

    def _send(self, sender: int, receiver: int, happen: Callable[[], None]) -> None:
        """In order on each connection, after 1 to 5 ms."""
        when = max(self.now + self.chance.uniform(0.001, 0.005), self.last.get((sender, receiver), 0))
        self.last[sender, receiver] = when
        self._at(when, lambda: happen() if {sender, receiver} <= self.alive else None)

    def _arrive(self) -> None:
        self._at(self.now + self.chance.expovariate(self.scene.per_second), self._arrive)
        row = self.chance.choices(range(self.scene.replicas), self.scene.weights)[0]
        if row not in self.alive:  # the Service sends it elsewhere
            row = self.chance.choice(sorted(self.alive))
        tokens = self.expected[row].of(BODY_BYTES) if self.scene.limits.tokens else 0
        self._try(row, PendingRequest("key", self.scene.limits, tokens), self.now + ASK_S)

    def _try(self, row: int, wish: PendingRequest, until: float) -> None:
        member = self.members[row]
        if row not in self.alive:
            return
        if member.is_keeper:
            self._begin(row, wish, member.decide(wish, self.now))
        elif self.now >= until:
            self._begin(row, wish, member.decide_alone(wish, self.now))
        else:
            self._ask(row, int(member.keeper[1:]), wish, until)

    def _ask(self, row: int, keeper: int, wish: PendingRequest, until: float) -> None:
        member, number, open_ = self.members[row], next(self.numbers), [True]
        question = member.ask(wish, number)

        def on_verdict(message: dict | None) -> None:
            if not open_ or row not in self.alive:
                return
            open_.clear()
            if message is None:
                member.unasked(wish.key)
                self._at(self.now + AGAIN_S, lambda: self._try(row, wish, until))
            else:
                self._begin(row, wish, member.take_verdict(wish.key, message, self.now))

        def asked() -> None:
            message = self.members[keeper].receive(f"r{row}", question, self.now)
            self._send(keeper, row, lambda: on_verdict(message if message["is"] == ANSWER else None))

        self._send(row, keeper, asked)
        self._at(self.now + 0.1, lambda: on_verdict(None) if keeper not in self.alive else None)

    def _begin(self, row: int, wish: PendingRequest, verdict: Verdict) -> None:
        if not verdict.may_begin:
            return
        tokens = self.chance.randint(150, 450)
        self.began.append((self.now, tokens))
        self.running += 1
        self.most_running = max(self.most_running, self.running)

        def end() -> None:
            self.running -= 1
            if row in self.alive:
                self.members[row].end(wish, verdict.second, tokens if wish.limits.tokens else 0, self.now)
                self.expected[row].learn(BODY_BYTES, 100, tokens - 100)

        self._at(self.now + self.scene.answer_s, end)

    def _news(self) -> None:
        self._at(self.now + NEWS_S, self._news)
        for row in self.alive:
            news = self.members[row].news()
            for other in self.alive - {row} if news else ():
                self._send(row, other, lambda o=other, r=row, n=news: self.members[o].receive(f"r{r}", n, self.now))

    def _die(self) -> None:
        gone = self.scene.dies
        self.alive.discard(gone)
        for row in self.alive:  # a killed process's connections are reset at once
            self.members[row].lost(f"r{gone}")
            self.members[row].silent(f"r{gone}")
            self.members[row].known -= 1  # nobody listens there


def most_in_a_minute(began: list[tuple[float, int]], value: Callable[[int], int]) -> int:
    """The most that any 60 seconds hold."""
    most = total = first = 0
    for now, tokens in began:
        total += value(tokens)
        while began[first][0] <= now - 60:
            total -= value(began[first][1])
            first += 1
        most = max(most, total)
    return most
