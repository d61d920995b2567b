"""A follower of a group: connects to the head, starts its engine at *go*, and ends when the head goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from windlass.errors import GroupIncompleteError, MemberLostError, UsageError, WindlassError
from windlass.group import contract
from windlass.group.connection import MemberConnection
from windlass.group.membership import GroupFacts, last_message
from windlass.group.messages import END, GO, HELLO, LATER, LINE_BYTES_MAX, READY, REFUSED, SERVING, GroupMessage
from windlass.group.plan import GroupPlan

RETRY_S = 1.0
CONNECT_S_MAX = 5.0
HEAD = 0


class Follower:
    """Any member but 0. A Membership."""

    def __init__(self, plan: GroupPlan, report: Callable[[GroupFacts], None]) -> None:
        """`report` gets the reason while the head does not answer."""
        self._plan, self._report = plan, report
        self._connection: MemberConnection | None = None
        self._ready = False
        self._go, self._served = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Stay with the head: connect again until *go*; afterwards MemberLostError when it goes."""
        while True:
            async with await self._connect() as connection:
                self._connection = connection
                await self._talk(connection)
            await asyncio.sleep(RETRY_S)

    async def ready(self) -> None:
        """Send the head that this member is ready, and wait for *go*."""
        self._ready = True
        if self._connection:
            await self._connection.send(GroupMessage(READY))
        await self._go.wait()

    async def served(self) -> None:
        """Wait until the head says that the group serves."""
        await self._served.wait()

    async def serving(self) -> None:
        """Nothing: only a head knows."""

    async def part(self, error: WindlassError | None) -> None:
        """Send the head the reason."""
        if self._connection:
            await self._connection.send(last_message(self._plan, error))
            self._connection.close()

    async def _connect(self) -> MemberConnection:
        head, port, limit_s = self._plan.head, self._plan.port, self._plan.timeout_s
        clock = asyncio.get_running_loop().time
        began, reported = clock(), ""
        while True:
            try:
                opening = asyncio.open_connection(head, port, limit=LINE_BYTES_MAX)
                return MemberConnection(*await asyncio.wait_for(opening, CONNECT_S_MAX), self._plan.lost_after_s)
            except OSError as error:
                why = error.strerror or str(error) or f"no answer in {CONNECT_S_MAX:g} s"
            if limit_s is not None and clock() - began >= limit_s:
                raise GroupIncompleteError(
                    f"the head {head}:{port} did not answer in {limit_s:g} s: {why}; see the head's pod, "
                    f"or raise {contract.TIMEOUT.name}",
                    (HEAD,),
                )
            if why != reported:
                self._report(GroupFacts(self._plan, (HEAD,), f"waits for the head {head}:{port}: {why}"))
                reported = why
            await asyncio.sleep(RETRY_S)

    async def _talk(self, connection: MemberConnection) -> None:
        """Follow the head until it goes; return when it goes before *go*."""
        plan = self._plan
        await connection.send(GroupMessage(HELLO, plan.index, plan.size, plan.engine, revision=plan.revision))
        if self._ready:
            await connection.send(GroupMessage(READY))
        self._report(GroupFacts(plan, message=f"the head {plan.head}:{plan.port} is there"))
        while message := await connection.receive():
            if message.kind == REFUSED:
                raise UsageError(f"the head {plan.head} refuses this member: {message.text}")
            if message.kind == LATER:
                self._report(GroupFacts(plan, (HEAD,), f"the head {plan.head} {message.text}"))
                return
            if message.kind == END:
                self._lost(message.member, message.text if message.member else f"ended: {message.text}")
                return
            self._event(message)
        self._lost(HEAD, connection.lost)

    def _event(self, message: GroupMessage) -> None:
        if message.kind == GO:
            self._go.set()
        if message.kind == SERVING:
            self._served.set()

    def _lost(self, member: int, how: str) -> None:
        if self._go.is_set():
            raise MemberLostError(how if member else f"the head {self._plan.head} {how}", member)
