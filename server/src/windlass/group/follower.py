"""A follower of a group: goes to the head until it answers, starts when told to, and ends when the head goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from windlass.errors import GroupIncompleteError, MemberLostError, UsageError, WindlassError
from windlass.group import contract
from windlass.group.line import Line
from windlass.group.membership import GroupFacts, last_word
from windlass.group.plan import GroupPlan
from windlass.group.words import END, GO, HELLO, LATER, LINE_BYTES_MAX, READY, REFUSED, SERVING, Word

RETRY_S = 1.0
CONNECT_S_MAX = 5.0
HEAD = 0


class Follower:
    """Any member but 0. A Membership."""

    def __init__(self, plan: GroupPlan, report: Callable[[GroupFacts], None]) -> None:
        """`report` hears whether the head is waited for."""
        self._plan, self._report = plan, report
        self._line: Line | None = None
        self._ready = False
        self._go, self._served = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Stay with the head: come again until all were told to go, then MemberLostError when it goes."""
        while True:
            async with await self._connect() as line:
                self._line = line
                await self._talk(line)
            await asyncio.sleep(RETRY_S)

    async def ready(self) -> None:
        """Tell the head, and wait for its go."""
        self._ready = True
        if self._line:
            await self._line.say(Word(READY))
        await self._go.wait()

    async def served(self) -> None:
        """The head says so."""
        await self._served.wait()

    async def serving(self) -> None:
        """Only a head knows."""

    async def part(self, error: WindlassError | None) -> None:
        """Tell the head why."""
        if self._line:
            await self._line.say(last_word(self._plan, error))
            self._line.close()

    async def _connect(self) -> Line:
        head, port, limit_s = self._plan.head, self._plan.port, self._plan.timeout_s
        began, told = time.monotonic(), ""
        while True:
            try:
                opening = asyncio.open_connection(head, port, limit=LINE_BYTES_MAX)
                return Line(*await asyncio.wait_for(opening, CONNECT_S_MAX), self._plan.lost_after_s)
            except OSError as error:
                why = error.strerror or str(error) or f"no answer in {CONNECT_S_MAX:g} s"
            if limit_s is not None and time.monotonic() - began >= limit_s:
                raise GroupIncompleteError(
                    f"the head {head}:{port} did not answer in {limit_s:g} s: {why}; see the head's pod, "
                    f"or raise {contract.TIMEOUT.name}",
                    (HEAD,),
                )
            if why != told:
                self._report(GroupFacts(self._plan, (HEAD,), f"waits for the head {head}:{port}: {why}"))
                told = why
            await asyncio.sleep(RETRY_S)

    async def _talk(self, line: Line) -> None:
        """Until the head goes; returns when that was before its go."""
        plan = self._plan
        await line.say(Word(HELLO, plan.index, plan.size, plan.engine, revision=plan.revision))
        if self._ready:
            await line.say(Word(READY))
        self._report(GroupFacts(plan, message=f"the head {plan.head}:{plan.port} is there"))
        while word := await line.hear():
            if word.kind == REFUSED:
                raise UsageError(f"the head {plan.head} refuses this member: {word.message}")
            if word.kind == LATER:
                self._report(GroupFacts(plan, (HEAD,), f"the head {plan.head} {word.message}"))
                return
            if word.kind == END:
                self._lost(word.member, word.message if word.member else f"ended: {word.message}")
                return
            self._event(word)
        self._lost(HEAD, line.lost)

    def _event(self, word: Word) -> None:
        if word.kind == GO:
            self._go.set()
        if word.kind == SERVING:
            self._served.set()

    def _lost(self, member: int, how: str) -> None:
        if self._go.is_set():
            raise MemberLostError(how if member else f"the head {self._plan.head} {how}", member)
