"""Reads the logs of a service's pods: one after the other, or all at once while they go on and pods come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from windlass_operator.client import paths
from windlass_operator.client.errors import InvalidError, NoLogsError, NotFoundError, UnreachableError
from windlass_operator.client.rest import Api
from windlass_operator.client.values import LogLine, Pod

SERVER_CONTAINER = "server"
LOOK_AGAIN_S = 2.0
LINES_WAITING_MAX = 1000
FindPods = Callable[[str, str], Awaitable[list[Pod]]]


@dataclass(frozen=True, slots=True)
class Ask:
    """Which logs."""

    namespace: str
    name: str
    pod: str
    follow: bool
    previous: bool
    tail_lines: int | None


async def read(api: Api, ask: Ask, find_pods: FindPods) -> AsyncIterator[LogLine]:
    """The lines; NoLogsError when nothing has been written by any pod and none is awaited."""
    lines = _follow(api, ask, find_pods) if ask.follow and not ask.previous else _once(api, ask, find_pods)
    async for line in lines:
        yield line


async def _once(api: Api, ask: Ask, find_pods: FindPods) -> AsyncIterator[LogLine]:
    """Pod after pod; those that have no log are left out while another has one."""
    silent: NoLogsError | None = None
    heard = False
    for pod in await _names(ask, find_pods):
        try:
            async for line in _pod_lines(api, ask, pod, follow=False):
                heard = True
                yield line
        except NoLogsError as error:
            silent = silent or error
    if not heard:
        raise silent or NoLogsError(f"llmservice {ask.namespace}/{ask.name}: its pods have written nothing yet")


async def _follow(api: Api, ask: Ask, find_pods: FindPods) -> AsyncIterator[LogLine]:
    """A reader for each pod into one queue; a pod whose container starts again is read again."""
    queue: asyncio.Queue[LogLine] = asyncio.Queue(LINES_WAITING_MAX)
    keeper = asyncio.create_task(_keep_reading(api, ask, find_pods, queue))
    try:
        while True:
            next_line = asyncio.create_task(queue.get())
            done, _ = await asyncio.wait({keeper, next_line}, return_when=asyncio.FIRST_COMPLETED)
            if next_line not in done:
                next_line.cancel()
                keeper.result()  # raises what went wrong
                return
            yield next_line.result()
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _keep_reading(api: Api, ask: Ask, find_pods: FindPods, queue: asyncio.Queue[LogLine]) -> None:
    readers: dict[str, asyncio.Task[None]] = {}
    read_before: set[str] = set()
    try:
        while True:
            for pod in await _names(ask, find_pods, none_yet=True):
                if pod not in readers or readers[pod].done():
                    since_start = pod not in read_before
                    read_before.add(pod)
                    readers[pod] = asyncio.create_task(_into(api, ask, pod, queue, since_start))
            await asyncio.sleep(LOOK_AGAIN_S)
    finally:
        for task in readers.values():
            task.cancel()
        await asyncio.gather(*readers.values(), return_exceptions=True)


async def _into(api: Api, ask: Ask, pod: str, queue: asyncio.Queue[LogLine], since_start: bool) -> None:
    """One pod until its container ends; read a second time, only what is new is wanted."""
    since_s = None if since_start else max(1, int(LOOK_AGAIN_S))
    try:
        async for line in _pod_lines(api, ask, pod, follow=True, since_s=since_s):
            await queue.put(line)
    except (NoLogsError, NotFoundError, UnreachableError):
        return  # not started yet, gone, or cut: looked at again


async def _names(ask: Ask, find_pods: FindPods, none_yet: bool = False) -> list[str]:
    if ask.pod:
        return [ask.pod]
    found = [pod.name for pod in await find_pods(ask.name, ask.namespace)]
    if not found and not none_yet:
        raise NoLogsError(f"llmservice {ask.namespace}/{ask.name} has no pods; see its status for why")
    return found


async def _pod_lines(
    api: Api, ask: Ask, pod: str, *, follow: bool, since_s: int | None = None
) -> AsyncIterator[LogLine]:
    params: dict[str, str | int | bool | None] = {
        "container": SERVER_CONTAINER,
        "follow": follow,
        "previous": ask.previous,
        "tailLines": ask.tail_lines if since_s is None else None,
        "sinceSeconds": since_s,
    }
    path = paths.core(ask.namespace, "pods", pod, "log")
    try:
        async with api.lines(path, f"pod {ask.namespace}/{pod}", params=params) as lines:
            async for text in lines:
                yield LogLine(pod, SERVER_CONTAINER, text)
    except InvalidError as error:  # 400: waiting to start, or no earlier run
        raise NoLogsError(str(error)) from error
