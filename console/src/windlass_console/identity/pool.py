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

from windlass_console.errors import FullError, TooManyStreamsError
from windlass_console.identity.access import MakeAccess
from windlass_console.identity.rights import Rights
from windlass_console.identity.token import namespace_of
from windlass_console.live.feed import Feeds
from windlass_console.settings import Settings

FIELD_MANAGER = "windlass-console"
STREAMS_MAX = 16  # of one user
IDENTITIES_MAX = 500
UNPROVEN_MAX = 32  # tokens that the API server has not accepted yet
IDLE_S, SWEEP_S = 300.0, 30.0
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Identity:
    """One user: everything that is asked in their name."""

    def __init__(self, client: AsyncClient, offered: tuple[str, ...] = ()) -> None:
        self.client = client
        self.rights = Rights(client.api, client.namespace, offered)
        self.feeds = Feeds(client)
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

    @asynccontextmanager
    async def asked(self, token: str) -> AsyncIterator[Identity]:
        """The user for one request; UnauthorizedError for a token that the API server does not accept."""
        found = self.of(token)
        found.requests += 1
        try:
            await self._admit(_digest(token), found)
            yield found
        finally:
            found.requests -= 1
            found.used = time.monotonic()

    def of(self, token: str) -> Identity:
        """The one with this token, a user or not; only `asked` keeps the client open."""
        digest = _digest(token)
        pool = self._known if digest in self._known else self._unproven
        found = pool.get(digest)
        if found is None:
            _make_room(pool, UNPROVEN_MAX, f"{UNPROVEN_MAX} users sign in at this moment; try again")
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
                await one.user()
        except UnauthorizedError:
            if one.requests == 1 and digest in self._unproven:
                del self._unproven[digest]
                await one.aclose()
            raise
        if self._known.get(digest) is not one:  # another request of the same user was faster
            full = f"the console serves {IDENTITIES_MAX} users already; try again later, or run more replicas"
            _make_room(self._known, IDENTITIES_MAX, full)
            self._unproven.pop(digest, None)
            self._known[digest] = one

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
    task = asyncio.ensure_future(pool.pop(longest).aclose())
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
