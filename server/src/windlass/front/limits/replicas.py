"""The replicas of a service that hold limits together: the asyncio shell around `member`.

Every replica dials every other one. It asks the keeper over the connection that it dialled itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from windlass.front.limits.decide import Verdict
from windlass.front.limits.link import HANDSHAKE_S, LINE_BYTES, WRONG, Hello, Link, LinkError, handshake
from windlass.front.limits.member import ANSWER, Identity, Member, PendingRequest

log = logging.getLogger("windlass.limits.replicas")
DISCOVER_S = 5.0
FIRST_DISCOVER_S = 2.0
"""Seconds that the first request waits at most for the other replicas to be found."""
DIAL_S = 1.0
ASK_S = 1.0
"""Seconds for an answer of the keeper; then the replica decides alone."""
AGAIN_S = 0.02
NEWS_S = 0.005
"""Seconds in which cells are gathered before everybody is told."""
TICK_S = 1.0
SILENCE_S = 3.0
"""A connection on which nothing came for so long is given up; a ping goes each second."""
MOST_STRANGERS = 64
"""Connections that have not shown yet who they are."""
PING, PONG = "ping", "pong"

Address = tuple[str, int]


class Replicas:
    """This replica and the connections to the others."""

    def __init__(
        self, peers: tuple[Address, ...], port: int, keys: Callable[[], tuple[bytes, ...]], host: str = ""
    ) -> None:
        """Nothing is open yet; `peers` are names whose addresses are all replicas, this one too."""
        self.member = Member(Identity(time.time(), secrets.token_hex(8)))
        self._peers, self._port, self._host, self._keys = peers, port, host, keys
        self._links: dict[str, _Dialled] = {}
        self._addresses: dict[Address, str] = {}
        self._unknown: set[Address] = set()
        """Addresses where a replica may be that cannot be reached: nobody refuses the connection there."""
        self._told_by: Counter[str] = Counter()
        """Connections that each other replica has to us: two while it dials anew."""
        self._inbound: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._strangers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._found = asyncio.Event()
        self._news_due = False
        self.alone = 0
        """Requests decided without the keeper."""
        self._server: asyncio.Server | None = None

    @property
    def connected(self) -> int:
        """Other replicas that can be asked."""
        return len(self._links)

    async def start(self) -> None:
        """Listen, and look for the others from now on."""
        if not self._peers:
            self._found.set()
        else:
            host = self._host or None
            self._server = await asyncio.start_server(self._answer, host, self._port, limit=LINE_BYTES)
            self._port = self._server.sockets[0].getsockname()[1]
            self._spawn(self._discover())
        self._spawn(self._tick())

    async def stop(self) -> None:
        """Leave; the others go on."""
        if self._server:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        for link in self._links.values():
            link.link.close()
        for writer in self._inbound.values():  # each ends by itself when its connection does
            writer.transport.abort()
        await asyncio.gather(*self._tasks, *self._inbound, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' own last step

    async def enter(self, wish: PendingRequest) -> Verdict:
        """Whether a request may begin; who may must `end` it."""
        if not self._found.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._found.wait(), FIRST_DISCOVER_S)
        until = _now_s() + ASK_S
        while not self.member.is_keeper:
            link = self._links.get(self.member.keeper)
            verdict = await link.ask(self.member, wish, until - _now_s()) if link else None
            self._tell_soon()
            if verdict:
                return verdict
            if _now_s() + AGAIN_S >= until:
                verdict = self.member.decide_alone(wish, time.time())
                self.alone += 1
                break
            await asyncio.sleep(AGAIN_S)
        else:
            verdict = self.member.decide(wish, time.time())
        self._tell_soon()
        return verdict

    def end(self, wish: PendingRequest, second: int, tokens: int) -> None:
        """A request that began has ended, and used so many tokens."""
        self.member.end(wish, second, tokens, time.time())
        self._tell_soon()

    def _hello(self) -> Hello:
        return Hello(self.member.identity, self._port)

    def _spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]  # a coroutine of ours
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell_soon(self) -> None:
        if not self._news_due and self._peers:
            self._news_due = True
            asyncio.get_running_loop().call_later(NEWS_S, self._tell)

    def _tell(self) -> None:
        self._news_due = False
        if news := self.member.news():
            for link in list(self._links.values()):
                link.link.send(news)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self.member.ledger.forget(time.time())
            if not self._peers:
                self.member.news()  # nobody to tell
            for link in list(self._links.values()):
                link.check()

    async def _discover(self) -> None:
        while True:
            addresses = await self._resolve()
            if addresses:  # else the name cannot be looked up now; who was there before may be there still
                self._unknown &= addresses
            missing = [one for one in addresses if self._addresses.get(one) is None]
            await asyncio.gather(*(self._dial(address) for address in missing))
            self._count()
            self._found.set()
            await asyncio.sleep(DISCOVER_S if self._links else TICK_S)

    def _count(self) -> None:
        self.member.known = 1 + len(self._links) + len(self._unknown)

    async def _resolve(self) -> set[Address]:
        loop, found = asyncio.get_running_loop(), set[Address]()
        for host, port in self._peers:
            with suppress(OSError, UnicodeError):  # the name has no address until the first pod has one
                rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                found |= {(str(row[4][0]), port) for row in rows}
        return found

    async def _dial(self, address: Address) -> None:
        self._addresses[address] = ""
        try:
            await self._connect(address)
        except (OSError, LinkError) as error:
            self._missed(address, error)
            log.debug("windlass: replica %s:%d cannot be reached: %s", *address, error)
        except Exception as error:  # whatever it is: the other replicas are still to be found
            self._missed(address, error)
            log.exception("windlass: replica %s:%d cannot be reached", *address)

    def _missed(self, address: Address, error: Exception) -> None:
        self._addresses.pop(address, None)
        (self._unknown.discard if isinstance(error, ConnectionRefusedError) else self._unknown.add)(address)

    async def _connect(self, address: Address) -> None:
        keys = self._keys()
        async with asyncio.timeout(DIAL_S + HANDSHAKE_S):
            streams = await asyncio.open_connection(*address, limit=LINE_BYTES)
            link = await handshake(streams, self._hello(), keys, dialled=True)
        self._unknown.discard(address)
        other = link.other.identity
        self._addresses[address] = other.id
        if other == self.member.identity or other.id in self._links:  # our own address: never dialled again
            link.close()
        else:
            self._links[other.id] = _Dialled(link)
            self._count()
            self._spawn(self._listen(other.id, address))
            link.send(self.member.connected(other))

    async def _listen(self, id_: str, address: Address) -> None:
        dialled = self._links[id_]
        try:
            while True:
                dialled.heard(await dialled.link.receive())
        except LinkError:
            pass
        finally:
            self.member.lost(id_)
            self._links.pop(id_, None)
            if dialled.is_silent:
                self._unknown.add(address)
            self._count()
            self._addresses = {one: known for one, known in self._addresses.items() if known != id_}
            dialled.fail()
            dialled.link.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if self._strangers >= MOST_STRANGERS or task is None:
            writer.transport.abort()
            return
        self._inbound[task] = writer
        self._strangers += 1
        try:
            try:
                link = await handshake((reader, writer), self._hello(), self._keys(), dialled=False)
            finally:
                self._strangers -= 1
            await self._serve(link)
        except LinkError as error:
            log.debug("windlass: a connection for limits was refused: %s", error)
        finally:
            self._inbound.pop(task, None)

    async def _serve(self, link: Link) -> None:
        id_, address = link.other.identity.id, (link.host, link.other.port)
        if id_ != self.member.identity.id and id_ not in self._links and address not in self._addresses:
            self._spawn(self._dial(address))
        self._told_by[id_] += 1
        with suppress(LinkError, *WRONG):
            while True:
                message = await link.receive()
                if message["is"] == PING:
                    link.send({"is": PONG})
                elif (answer := self.member.receive(id_, message, time.time())) is not None:
                    link.send(answer)
                    self._tell_soon()
        link.close()
        self._told_by[id_] -= 1
        if not self._told_by[id_]:
            del self._told_by[id_]
            self.member.silent(id_)


def _now_s() -> float:
    """The clock on which this module sleeps."""
    return asyncio.get_running_loop().time()


class _Dialled:
    """A connection that we dialled, and the questions on it that have no answer yet."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._heard_at = _now_s()
        self.is_silent = False

    async def ask(self, member: Member, wish: PendingRequest, timeout_s: float) -> Verdict | None:
        """The keeper's verdict; None when it gave none."""
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.link.send(member.ask(wish, number))
        message: object = None
        try:
            message = await asyncio.wait_for(future, max(0.0, timeout_s))
        except TimeoutError:
            pass
        finally:
            self._waiting.pop(number, None)
            if message is None:
                member.unasked(wish.key)
        return member.take_verdict(wish.key, message, time.time()) if isinstance(message, dict) else None

    def heard(self, message: dict[str, object]) -> None:
        """A message on this connection."""
        self._heard_at = _now_s()
        future = self._waiting.get(int(str(message.get("n", 0))))
        if future and not future.done():
            future.set_result(message if message["is"] == ANSWER else None)

    def check(self) -> None:
        """Ping; give up a connection on which nothing comes."""
        if _now_s() - self._heard_at > SILENCE_S:
            self.is_silent = True
            self.link.close()
        else:
            self.link.send({"is": PING})

    def fail(self) -> None:
        """No question will be answered."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
