"""Judges the engine's steps every few seconds, in the event loop of its API; the guard asks it for its verdict."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from windlass.front.progress.rule import EVERY_S, Progress
from windlass.front.refusal import Refusal

log = logging.getLogger("windlass.progress.watch")
HEADER = "x-windlass-stalled"
"""On the refusal of a probe while the engine hangs: so the supervisor knows it from other refusals."""
PAUSED_S = 5.0
"""Seconds for the engine's answer whether it is paused; one that hangs gives none."""


class Client(Protocol):
    """What is asked of vLLM's engine client."""

    def get_num_unfinished_requests(self) -> int:
        """Requests that were sent to the engine and have not ended."""

    async def is_paused(self) -> bool:
        """Whether it takes no steps on purpose."""


class Watch:
    """The verdict on one server's engine."""

    def __init__(self, progress: Progress, is_judged: Callable[[], bool]) -> None:
        """`is_judged` says whether the start is over: a first compile may take its time."""
        self._progress, self._is_judged = progress, is_judged
        self.told = ""
        """What is wrong; empty while nothing is."""
        self.tell: Callable[[str], object] = _nobody
        """Called with `told` where it changes."""

    def refusal(self, elsewhere: str = "") -> Refusal | None:
        """What a probe hears while the engine hangs; `elsewhere` is what another API process found."""
        told = self.told or elsewhere
        return Refusal(503, told, headers=((HEADER, "1"),)) if told else None

    async def run(self, client: Client, sockets: Callable[[], int], every_s: float = EVERY_S) -> None:
        """Judge for ever. A process that was stopped as a whole has lost no time: at most two turns are counted."""
        clock = asyncio.get_running_loop().time
        before = clock()
        while True:
            await asyncio.sleep(every_s)
            now = clock()
            requests = client.get_num_unfinished_requests()
            self._progress.passed(min(now - before, 2 * every_s), has_work=requests > sockets())
            before = now
            await self.judge(client, requests)

    async def judge(self, client: Client, requests: int) -> None:
        """One look."""
        told = ""
        if self._progress.is_stalled and self._is_judged():
            if await _is_paused(client):
                self._progress.forgive()
            else:
                told = self._progress.sentence(requests)
        if told and not self.told:
            log.error("windlass: %s", told)
        elif self.told and not told:
            log.warning("windlass: the engine ends steps again")
        if told != self.told:
            self.told = told
            self.tell(told)


def _nobody(_: str) -> None:
    return


async def _is_paused(client: Client) -> bool:
    with suppress(TimeoutError):
        return bool(await asyncio.wait_for(client.is_paused(), PAUSED_S))
    return False


def client_of(app: Any) -> Client | None:  # noqa: ANN401 - the engine's own application
    """The engine's client, where the application has one that counts its requests."""
    found = getattr(getattr(app, "state", None), "engine_client", None)
    known = all(hasattr(found, name) for name in ("get_num_unfinished_requests", "is_paused"))
    return found if known else None
