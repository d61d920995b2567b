"""Reads the logs of a service's pods: one after the other, or all at once while they go on and pods come and go.

While following, the API server is asked for times: a container that starts again, or a connection that was cut, is read
on from the last line that was told, so that no line comes twice and none is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace

from windlass_api.names import SERVER
from windlass_base.kube.errors import InvalidError, NotFoundError, UnreachableError
from windlass_base.kube.rest import Api, AsText

from windlass_client import paths
from windlass_client.errors import NoLogsError
from windlass_client.line_queue import LineQueue
from windlass_client.values import LogLine, Pod

LOOK_AGAIN_S = 2.0
PIECE_MAX = 1 << 20  # characters; a longer line comes in pieces
FindPods = Callable[[str, str], Awaitable[list[Pod]]]


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which logs."""

    namespace: str
    name: str
    pod: str = ""
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    container: str = SERVER  # of `pod`; other pods are read where they do their work
    piece_max: int = PIECE_MAX
    pods_max: int | None = None  # followed at the same time; more of them are an InvalidError
    raw: bool = False  # true to the byte: what is no UTF-8 as `surrogateescape` keeps it, carriage returns too


async def read(api: Api, ask: LogQuery, find_pods: FindPods) -> AsyncGenerator[LogLine]:
    """The lines; NoLogsError when nothing has been written by any pod and none is awaited."""
    lines = _follow(api, ask, find_pods) if ask.follow and not ask.previous else _once(api, ask, find_pods)
    async with aclosing(lines):
        async for line in lines:
            yield line


async def _once(api: Api, ask: LogQuery, find_pods: FindPods) -> AsyncGenerator[LogLine]:
    """Pod after pod; those that have no log are left out while another has one."""
    silent: NoLogsError | None = None
    heard = False
    for pod, container in await _targets(ask, find_pods):
        try:
            async with aclosing(_pod_lines(api, replace(ask, container=container), pod)) as lines:
                async for line in lines:
                    heard = True
                    yield line
        except NoLogsError as error:
            silent = silent or error
    if not heard:
        raise silent or NoLogsError(f"llmservice {ask.namespace}/{ask.name}: its pods have written nothing yet")


async def _follow(api: Api, ask: LogQuery, find_pods: FindPods) -> AsyncGenerator[LogLine]:
    """A reader for each pod into one queue."""
    queue = LineQueue()
    keeper = asyncio.create_task(_Keeper(api, ask, queue).run(find_pods))
    keeper.add_done_callback(lambda _: queue.end())
    try:
        while lines := await queue.take():
            for line in lines:
                yield line
        keeper.result()  # raises what went wrong
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


class _Keeper:
    """Keeps a reader on every pod, and knows the time of the last line of each."""

    def __init__(self, api: Api, ask: LogQuery, queue: LineQueue) -> None:
        self._api, self._ask, self._queue = api, ask, queue
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._last: dict[str, str] = {}

    async def run(self, find_pods: FindPods) -> None:
        """Until cancelled, or until the pods may not be listed."""
        try:
            while True:
                for pod, container in await _targets(self._ask, find_pods, none_yet=True):
                    if pod not in self._readers or self._readers[pod].done():
                        self._readers[pod] = asyncio.create_task(self._read(pod, container))
                await asyncio.sleep(LOOK_AGAIN_S)
        finally:
            for task in self._readers.values():
                task.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    async def _read(self, pod: str, container: str) -> None:
        """One pod until its container ends."""
        ask = replace(self._ask, container=container)
        try:
            async for line in _pod_lines(self._api, ask, pod, since=self._last.get(pod, "")):
                self._last[pod] = line.time
                await self._queue.put(line)
        except (NoLogsError, NotFoundError, UnreachableError):
            return  # not started yet, gone, or cut: looked at again


async def _targets(ask: LogQuery, find_pods: FindPods, none_yet: bool = False) -> list[tuple[str, str]]:
    """The pods to read, each with the container that does its work."""
    if ask.pod:
        return [(ask.pod, ask.container)]
    found = [(pod.name, pod.container) for pod in await find_pods(ask.name, ask.namespace)]
    if not found and not none_yet:
        raise NoLogsError(f"llmservice {ask.namespace}/{ask.name} has no pods; see its status for why")
    if none_yet and ask.pods_max is not None and len(found) > ask.pods_max:
        raise InvalidError(
            f"llmservice {ask.namespace}/{ask.name} has {len(found)} pods, and {ask.pods_max} are followed at once; "
            "choose one of them"
        )
    return found


async def _pod_lines(api: Api, ask: LogQuery, pod: str, *, since: str = "") -> AsyncGenerator[LogLine]:
    """The lines of one container, all or those after the time `since`."""
    follow = ask.follow and not ask.previous
    params: dict[str, str | int | bool | None] = {
        "container": ask.container,
        "follow": follow,
        "timestamps": follow,
        "previous": ask.previous,
        "tailLines": None if since else ask.tail_lines,
        "sinceTime": since,
    }
    path = paths.core(ask.namespace, "pods", pod, "log")
    as_text = AsText("surrogateescape" if ask.raw else "replace", ask.piece_max, keep_returns=ask.raw)
    time, begins = "", True
    try:
        async with api.lines(path, f"pod {ask.namespace}/{pod}", params=params, as_text=as_text) as lines:
            async for text, goes_on in lines:
                said = text
                if follow and begins:
                    time, said = text.partition(" ")[::2]
                if not since or _later(time, since):  # sinceTime knows whole seconds only
                    for piece, more in _pieces(said, ask.piece_max):
                        yield LogLine(pod, ask.container, piece, time, more or goes_on)
                begins = not goes_on
    except InvalidError as error:  # 400: waiting to start, or no earlier run
        raise NoLogsError(str(error)) from error


def _pieces(text: str, most: int) -> Iterator[tuple[str, bool]]:
    """The text in pieces, of which all but the last go on; one read of the network may bring more than `most`."""
    last = max(0, len(text) - 1) // most * most
    for start in range(0, last + 1, most):
        yield text[start : start + most], start < last


def _later(time: str, since: str) -> bool:
    """Whether one RFC 3339 instant of the kubelet's is after the other; their fractions may differ in length."""
    return _sortable(time) > _sortable(since)


def _sortable(time: str) -> tuple[str, str]:
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return seconds, fraction.ljust(9, "0")
