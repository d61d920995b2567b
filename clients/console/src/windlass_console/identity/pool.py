"""One client of the API server for each user who is there: connections, rights and live lists, let go when idle.

Only the digest of a token names a user here; the token itself is inside the client.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from windlass_api.objects.reading import dig
from windlass_base.kube.errors import ForbiddenError, UnauthorizedError
from windlass_client.client import AsyncClient

from windlass_console.errors import FullError, TooManyRequestsError, TooManyStreamsError
from windlass_console.identity.access import MakeAccess
from windlass_console.identity.rights import Rights
from windlass_console.identity.token import namespace_of
from windlass_console.live.feed import Feeds
from windlass_console.settings import Settings

FIELD_MANAGER = "windlass-console"
STREAMS_MAX = 16  # of one token
REQUESTS_MAX = 32  # under way of one token, streams left out
IDENTITIES_MAX = 500
TOKENS_MAX = IDENTITIES_MAX // 4  # of one account at a time; people may share a service account, each with a token
UNPROVEN_MAX = 32  # tokens that are before the API server at a time; the others wait in their order
SIGN_IN_S = 10.0  # that a token waits for its place
IDLE_S, SWEEP_S = 300.0, 30.0
_SIGN_INS = "many users sign in at this moment; try again"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Identity:
    """One token of a user: everything that is asked in their name."""

    def __init__(self, client: AsyncClient, offered: tuple[str, ...] = ()) -> None:
        self.client = client
        self.rights = Rights(client.api, client.namespace, offered)
        self.feeds = Feeds(client)
        self.name = ""  # of the user, once the API server has said it
        self.streams = self.requests = 0
        self.used = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether a stream or a request needs the client now."""
        return bool(self.streams or self.requests)

    async def user(self) -> tuple[str, list[str]]:
        """Name and groups, as the API server knows the user; UnauthorizedError when it does not."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await self.client.api.call("POST", REVIEW, "sign-in", body=body)
        groups = dig(answer, "status", "userInfo", "groups")
        names = [str(one) for one in groups] if isinstance(groups, list) else []
        return str(dig(answer, "status", "userInfo", "username") or ""), names

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request's place among those that may be under way; a stream's request lasts as long as the stream."""
        if self.requests - self.streams >= REQUESTS_MAX:
            raise TooManyRequestsError(f"you have {REQUESTS_MAX} requests under way already; wait for their answers")
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self.used = time.monotonic()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A stream's place among those that the user may hold."""
        if self.streams >= STREAMS_MAX:
            raise TooManyStreamsError(f"you hold {STREAMS_MAX} streams already; close another page of the console")
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            self.used = time.monotonic()

    async def aclose(self) -> None:
        """Let the connections go."""
        await self.feeds.aclose()
        await self.client.aclose()


Pool = OrderedDict[bytes, Identity]


class Identities:
    """All users of the process, and apart from them the tokens of which the API server has said nothing yet."""

    def __init__(self, settings: Settings, access: MakeAccess) -> None:
        self._settings, self._access = settings, access
        self._known, self._unproven = Pool(), Pool()
        self._turn = asyncio.Semaphore(UNPROVEN_MAX)

    @asynccontextmanager
    async def asked(self, token: str) -> AsyncIterator[Identity]:
        """The user for one request; UnauthorizedError for a token that the API server does not accept."""
        if (digest := _digest(token)) not in self._known:
            await self._prove(token, digest)
        found = self.of(token)
        with found.request():
            yield found

    async def _prove(self, token: str, digest: bytes) -> None:
        """Among the users, when the token's turn before the API server has come: a flood of others delays it alone."""
        try:
            async with asyncio.timeout(SIGN_IN_S):
                await self._turn.acquire()
        except TimeoutError as error:
            raise FullError(_SIGN_INS) from error
        try:
            found = self.of(token)
            with found.request():
                await self._admit(digest, found)
        finally:
            self._turn.release()

    def of(self, token: str) -> Identity:
        """The one with this token, a user or not; only `asked` keeps the client open."""
        digest = _digest(token)
        pool = self._known if digest in self._known else self._unproven
        found = pool.get(digest)
        if found is None:
            _make_room(pool, UNPROVEN_MAX, _SIGN_INS)
            namespace = namespace_of(token) or next(iter(self._settings.namespaces), "default")
            client = AsyncClient(self._access(token, namespace), field_manager=FIELD_MANAGER)
            found = pool[digest] = Identity(client, self._settings.namespaces)
        pool.move_to_end(digest)
        found.used = time.monotonic()
        return found

    async def _admit(self, digest: bytes, one: Identity) -> None:
        """Among the users, once the API server has accepted the token; a token that it refuses is forgotten."""
        if self._known.get(digest) is one:
            return
        try:
            with suppress(ForbiddenError):  # the API server knows who that is
                one.name, _ = await one.user()
        except UnauthorizedError:
            if one.requests == 1 and digest in self._unproven:
                del self._unproven[digest]
                await one.aclose()
            raise
        if self._known.get(digest) is not one:  # another request of the same user was faster
            self._bound_tokens(one.name)
            full = f"the console serves {IDENTITIES_MAX} users already; try again later, or run more replicas"
            _make_room(self._known, IDENTITIES_MAX, full)
            self._unproven.pop(digest, None)
            self._known[digest] = one

    def _bound_tokens(self, name: str) -> None:
        """Room for one more token of the account; TooManyRequestsError where all of them are in use."""
        own = Pool((digest, one) for digest, one in self._known.items() if name and one.name == name)
        if len(own) < TOKENS_MAX:
            return
        idle = next((digest for digest, one in own.items() if not one.busy), None)
        if idle is None:
            raise TooManyRequestsError(
                f"your account {name} uses {TOKENS_MAX} tokens at this moment; close other pages of the console"
            )
        _close_soon(self._known.pop(idle))

    async def sweep(self) -> None:
        """For as long as the process serves: let idle users go."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.let_idle_go(time.monotonic() - IDLE_S)

    async def let_idle_go(self, before: float) -> None:
        """Close the clients of users who hold no stream and have asked nothing since."""
        for pool in (self._known, self._unproven):
            for digest, one in list(pool.items()):
                if not one.busy and one.used < before and pool.get(digest) is one:
                    del pool[digest]
                    await one.aclose()

    async def aclose(self) -> None:
        """Close all clients."""
        for pool in (self._known, self._unproven):
            while pool:
                await pool.popitem()[1].aclose()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _make_room(pool: Pool, most: int, full: str) -> None:
    """Let the one go that has been idle for longest; FullError where none is."""
    if len(pool) < most:
        return
    longest = next((digest for digest, one in pool.items() if not one.busy), None)
    if longest is None:
        raise FullError(full)
    _close_soon(pool.pop(longest))


def _close_soon(one: Identity) -> None:
    task = asyncio.ensure_future(one.aclose())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
