"""Asks the engine's API while the engine starts: its health, then the first chat. Called by `supervise`.

The API is our own child on this machine, so nothing goes through a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_urlsafe
from urllib.parse import urljoin

import httpx

from windlass.engine.startup import first_chat
from windlass.engine.startup.first_chat import Outcome, Question
from windlass.errors import FirstChatError, WindlassError
from windlass.front.progress.rule import RESTART_S
from windlass.front.progress.watch import HEADER as HEADER_STALLED
from windlass.front.starting import HEADER, KEY_VARIABLE, OVER_PATH
from windlass.supervisor import own_tls

HEALTH_EVERY_S = 1.0
HEALTH_TIMEOUT_S = 2.0
AGAIN_S = 1.0
HANG_EVERY_S, HANG_TIMEOUT_S = 15.0, 10.0
"""Seldom: vLLM logs each request."""
RANK = "x-data-parallel-rank"
"""vLLM's header that chooses one of several engines."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The questions of one start, and the key by which the guard knows who asks them."""

    questions: tuple[Question, ...]
    key: str

    @classmethod
    def of(cls, questions: Sequence[Question]) -> Opening:
        """With a new key."""
        return cls(tuple(questions), token_urlsafe())

    @property
    def variables(self) -> dict[str, str]:
        """What the engine's process gets more."""
        return {KEY_VARIABLE: self.key}


class Api:
    """The engine's API; a context manager."""

    def __init__(self, health_url: str, opening: Opening | None) -> None:
        """`health_url` is where it tells its health."""
        self._health_url = health_url
        headers = {HEADER: opening.key} if opening else {}
        self._http = httpx.AsyncClient(
            base_url=urljoin(health_url, "/"),
            headers=headers,
            timeout=httpx.Timeout(None),  # the first chat may compile; the start time-out bounds it
            trust_env=False,
            verify=own_tls.context(),
        )

    async def __aenter__(self) -> Api:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def until_healthy(self) -> None:
        """Return when the API says that it is well."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await self._http.get(self._health_url, timeout=HEALTH_TIMEOUT_S)).is_success:
                    return
            await asyncio.sleep(HEALTH_EVERY_S)

    async def until_stalled(self, tell: Callable[[str], None]) -> str:
        """Return what is wrong when the engine hangs for as long as a restart waits; `tell` hears it before."""
        clock = asyncio.get_running_loop().time
        since: float | None = None
        while True:
            await asyncio.sleep(HANG_EVERY_S)
            told = await self._stall()
            if told is None:
                continue
            tell(told)
            since = (since or clock()) if told else None
            if since is not None and clock() - since >= RESTART_S:
                return told

    async def _stall(self) -> str | None:
        """What the guard says of an engine that hangs, nothing of one that is well; None when it does not answer."""
        try:
            answer = await self._http.get(self._health_url, timeout=HANG_TIMEOUT_S)
        except httpx.HTTPError:
            return None
        return first_chat.sentence(answer.content) if HEADER_STALLED in answer.headers else ""

    async def ask(self, questions: Sequence[Question], tell: Callable[[Question], None]) -> None:
        """Ask each question; `tell` hears which comes. WindlassError for an answer that is an error."""
        for question in questions:
            tell(question)
            found = await self._each(question)
            if Outcome.NO_TEMPLATE in found:
                await self.ask([first_chat.completion(question.engines)], tell)
            if found != {Outcome.PASSED}:
                return

    async def end_start(self) -> None:
        """Let the guard answer probes."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await self._http.post(OVER_PATH)).is_success:
                    return
            await asyncio.sleep(AGAIN_S)

    async def _each(self, question: Question) -> set[Outcome]:
        """The outcomes of all engines behind the port, which are asked at once."""
        ranks = range(question.engines) if question.engines > 1 else [None]
        asked = [asyncio.create_task(self._one(question, rank)) for rank in ranks]
        try:
            return set(await asyncio.gather(*asked))
        finally:
            for one in asked:
                one.cancel()

    async def _one(self, question: Question, rank: int | None) -> Outcome:
        headers = {} if rank is None else {RANK: str(rank)}
        while True:
            try:
                answer = await self._http.post(question.path, json=dict(question.body), headers=headers)
            except httpx.TransportError:  # its end, if that is why, says more
                await asyncio.sleep(AGAIN_S)
                continue
            found = first_chat.outcome(question, answer.status_code, answer.content)
            if found is Outcome.FAILED:
                raise _failure(question, answer, rank)
            if found is not Outcome.BUSY:
                return found
            await asyncio.sleep(AGAIN_S)


def _failure(question: Question, answer: httpx.Response, rank: int | None) -> WindlassError:
    said = first_chat.sentence(answer.content)
    if broken := first_chat.fault(question, said):
        return broken
    who = "the engine" if rank is None else f"engine {rank}"
    return FirstChatError(
        f"{who} is up and answers {question.name} with HTTP {answer.status_code}: {said or 'nothing more'}"
    )
