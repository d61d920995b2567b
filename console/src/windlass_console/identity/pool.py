"""One client of the API server for each user who is there: connections, rights and live lists, let go when idle.

Only the digest of a token names a user here; the token itself is inside the client.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from windlass_api.objects.reading import dig
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
IDLE_S, SWEEP_S = 300.0, 30.0
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Identity:
    """One user: everything that is asked in their name."""

    def __init__(self, client: AsyncClient, offered: tuple[str, ...] = ()) -> None:
        self.client = client
        self.rights = Rights(client.api, client.namespace, offered)
        self.feeds = Feeds(client)
        self.streams = 0
        self.used = time.monotonic()

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


class Identities:
    """All users of the process."""

    def __init__(self, settings: Settings, access: MakeAccess) -> None:
        self._settings, self._access = settings, access
        self._known: OrderedDict[bytes, Identity] = OrderedDict()

    def of(self, token: str) -> Identity:
        """The user with this token."""
        digest = hashlib.sha256(token.encode()).digest()
        found = self._known.get(digest)
        if found is None:
            self._make_room()
            namespace = namespace_of(token) or next(iter(self._settings.namespaces), "default")
            client = AsyncClient(self._access(token, namespace), field_manager=FIELD_MANAGER)
            found = self._known[digest] = Identity(client, self._settings.namespaces)
        self._known.move_to_end(digest)
        found.used = time.monotonic()
        return found

    async def sweep(self) -> None:
        """For as long as the process serves: let idle users go."""
        while True:
            await asyncio.sleep(SWEEP_S)
            await self.let_idle_go(time.monotonic() - IDLE_S)

    async def let_idle_go(self, before: float) -> None:
        """Close the clients of users who hold no stream and have asked nothing since."""
        idle = [digest for digest, one in self._known.items() if not one.streams and one.used < before]
        for digest in idle:
            await self._known.pop(digest).aclose()

    async def aclose(self) -> None:
        """Close all clients."""
        while self._known:
            await self._known.popitem()[1].aclose()

    def _make_room(self) -> None:
        if len(self._known) < IDENTITIES_MAX:
            return
        longest = next((digest for digest, one in self._known.items() if not one.streams), None)
        if longest is None:
            raise FullError(f"the console serves {IDENTITIES_MAX} users already; try again later, or run more replicas")
        task = asyncio.ensure_future(self._known.pop(longest).aclose())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
