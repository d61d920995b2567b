"""One watch of a namespace for one user, shared by all streams of that user, as long as there is one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from windlass_base.kube.errors import ClientError
from windlass_client.client import AsyncClient

from windlass_console.live.outbox import Key, Outbox
from windlass_console.views.row import Row, row_of

log = logging.getLogger(__name__)


class Feed:
    """The rows of a namespace, "*" for all, and the streams that follow them."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._rows: dict[Key, Row] = {}
        self._whole = False
        self._followers: set[Outbox] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def followed(self) -> bool:
        """Whether a stream needs this watch."""
        return bool(self._followers)

    @contextmanager
    def follow(self, outbox: Outbox) -> Iterator[None]:
        """Fill the outbox for as long as the block lasts; the first follower starts the watch, the last ends it."""
        self._followers.add(outbox)
        if self._whole:
            outbox.listed(self._rows)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)
        try:
            yield
        finally:
            self._followers.discard(outbox)
            if not self._followers:
                self.stop()

    def stop(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._whole, self._rows = None, False, {}

    async def _run(self) -> None:
        try:
            async for event in self._client.watch(self._namespace, on_listed=self._listed):
                meta = event.service.metadata
                self._put((meta.namespace, meta.name), None if event.type == "DELETED" else row_of(event.service))
        except ClientError as error:
            self._fail(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A fault of ours must not leave streams that wait for ever."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("the watch of %s ended", self._namespace, exc_info=fault)
            self._fail(ClientError("the list of services ended by a fault of the console; see its log"))

    def _fail(self, error: ClientError) -> None:
        self._task, self._whole, self._rows = None, False, {}
        for one in tuple(self._followers):
            one.fail(error)

    def _listed(self) -> None:
        if not self._whole:
            self._whole = True
            for one in self._followers:
                one.listed(self._rows)

    def _put(self, key: Key, row: Row | None) -> None:
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row
        if self._whole:
            for one in self._followers:
                one.put(key, row)


class Feeds:
    """The watches of one user, by namespace."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._feeds: dict[str, Feed] = {}

    @contextmanager
    def follow(self, namespaces: Sequence[str]) -> Iterator[Outbox]:
        """One outbox for the lists of these namespaces."""
        outbox = Outbox(len(namespaces))
        try:
            with ExitStack() as stack:
                for name in namespaces:
                    feed = self._feeds.setdefault(name, Feed(self._client, name))
                    stack.enter_context(feed.follow(outbox))
                yield outbox
        finally:
            self._feeds = {name: feed for name, feed in self._feeds.items() if feed.followed}

    async def aclose(self) -> None:
        """End all watches."""
        for feed in self._feeds.values():
            feed.stop()
        self._feeds = {}
