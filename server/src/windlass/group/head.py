"""The head of a group: followers connect to its port. When all are ready it sends go; when one goes, it ends."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Any, Protocol

from windlass.errors import GroupError, GroupIncompleteError, MemberLostError, UsageError, WindlassError
from windlass.group import contract
from windlass.group.connection import MemberConnection
from windlass.group.membership import GroupFacts, last_message
from windlass.group.messages import END, GO, LATER, LINE_BYTES_MAX, READY, REFUSED, SERVING, GroupMessage
from windlass.group.plan import GroupPlan
from windlass.group.roster import Roster, named

PART_S_MAX = 5.0
MOST_STRANGERS = 64
"""Connections that have not said yet which member they are; the one that waits longest goes for another."""


class Cluster(Protocol):
    """What the engine needs among the members beside themselves: a Ray cluster."""

    async def start(self) -> None:
        """Open the head's part, before the followers are let in."""

    async def formed(self) -> None:
        """Wait until all members are in it."""

    async def watch(self) -> None:
        """Never returns; GroupError when the head's part ends."""

    async def stop(self) -> None:
        """End the head's part."""


class NoCluster:
    """vLLM's own group needs none."""

    async def start(self) -> None:
        """Nothing."""

    async def formed(self) -> None:
        """Nothing."""

    async def watch(self) -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Nothing."""


class Head:
    """Member 0. A Membership."""

    def __init__(
        self, plan: GroupPlan, report: Callable[[GroupFacts], None], cluster: Cluster | None = None, host: str = ""
    ) -> None:
        """`host` is the address to listen at, all by default; `report` gets the members that are missing."""
        self._plan, self._report, self._host = plan, report, host
        self._cluster = cluster or NoCluster()
        self._roster = Roster(plan)
        self._connections: dict[int, MemberConnection] = {}
        self._meetings: dict[asyncio.Task[None], MemberConnection] = {}
        self._changed = asyncio.Event()
        self._went = False
        self._reported: GroupFacts | None = None
        self._lost: asyncio.Future[GroupError] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Let followers in; MemberLostError when one goes after *go*."""
        server = await self._listen()
        watch = asyncio.create_task(self._cluster.watch())
        try:
            ends: set[asyncio.Future[Any]] = {self._lost, watch}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
            raise self._lost.result()
        finally:
            server.close()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def ready(self) -> None:
        """Wait for the followers, then let all start; GroupIncompleteError when some are missing for too long."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while unready := self._roster.unready:
            missing = self._roster.missing
            if not missing:
                began = clock()  # those that came may take their time: they wait for their license
            self._report_waiting(missing, unready)
            await self._change(began, missing)
        await self._cluster.start()
        self._went = True
        await self._send(GroupMessage(GO))
        await self._cluster.formed()
        self._report(GroupFacts(self._plan, message="all members are there"))

    async def served(self) -> None:
        """Wait for ever: the supervisor asks the head's own engine."""
        await asyncio.Event().wait()

    async def serving(self) -> None:
        """Send the followers that the group serves."""
        await self._send(GroupMessage(SERVING))

    async def part(self, error: WindlassError | None) -> None:
        """Send the followers the reason, and wait until they have gone."""
        self._went = False
        await self._send(last_message(self._plan, error))
        for connection in self._meetings.values():
            connection.close()
        if self._meetings:
            await asyncio.wait(self._meetings, timeout=PART_S_MAX)
        await self._cluster.stop()

    async def _listen(self) -> asyncio.Server:
        port = self._plan.port
        try:
            return await asyncio.start_server(self._meet, self._host or None, port, limit=LINE_BYTES_MAX)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(f"group port {port} cannot be opened: {why}; set {contract.PORT.name}") from error

    async def _change(self, began: float, missing: tuple[int, ...]) -> None:
        """Wait until somebody comes, goes or is ready."""
        limit_s = self._plan.timeout_s if missing else None
        left_s = None if limit_s is None else max(0.0, began + limit_s - asyncio.get_running_loop().time())
        try:
            await asyncio.wait_for(self._changed.wait(), left_s)
        except TimeoutError:
            who = named(missing, self._plan.size)
            raise GroupIncompleteError(
                f"{who} did not come in {limit_s:g} s; see their pods, or raise {contract.TIMEOUT.name}", missing
            ) from None
        self._changed.clear()

    def _report_waiting(self, missing: tuple[int, ...], unready: tuple[int, ...]) -> None:
        members = missing or unready
        who = named(members, self._plan.size)
        message = f"waits for {who} to come" if missing else f"waits for the license of {who}"
        facts = GroupFacts(self._plan, members, message)
        if facts != self._reported:
            self._reported = facts
            self._report(facts)

    async def _send(self, message: GroupMessage) -> None:
        await asyncio.gather(*(one.send(message) for one in self._connections.values()))

    def _meet(self, reader: StreamReader, writer: StreamWriter) -> None:
        strangers = [one for one in self._meetings.values() if one not in self._connections.values()]
        if len(strangers) >= MOST_STRANGERS:
            strangers[0].close()
        connection = MemberConnection(reader, writer, self._plan.lost_after_s)
        meeting = asyncio.create_task(self._meeting(connection))
        self._meetings[meeting] = connection
        meeting.add_done_callback(self._meetings.pop)

    async def _meeting(self, connection: MemberConnection) -> None:
        """One connection, from its hello to its end."""
        async with connection:
            hello = await connection.receive()
            if hello is None:
                return  # a probe of the port
            if why := self._roster.refusal(hello):
                await connection.send(GroupMessage(REFUSED, text=why))
                return
            if why := self._roster.later(hello):
                await connection.send(GroupMessage(LATER, text=why))
                return
            await self._listen_to(connection, hello.member)

    async def _listen_to(self, connection: MemberConnection, member: int) -> None:
        if member in self._connections:
            self._gone(member, "was started again")
        self._connections[member] = connection
        self._roster.come(member)
        self._changed.set()
        try:
            while message := await connection.receive():
                if message.kind == READY:
                    self._roster.ready.add(member)
                    self._changed.set()
                if message.kind == END:
                    self._gone(member, f"ended: {message.text}")
                    return
        finally:
            if self._connections.get(member) is connection:
                self._gone(member, connection.lost)
                del self._connections[member]

    def _gone(self, member: int, how: str) -> None:
        """Before *go* a member may come again; afterwards the group ends with it."""
        self._roster.gone(member)
        self._changed.set()
        if self._went and not self._lost.done():
            self._lost.set_result(MemberLostError(f"member {member} of {self._plan.size} {how}", member))
