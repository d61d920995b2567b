"""Requests that the guard answers by itself: front page, chat page, facts, metrics and the end of the start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from windlass.api import names, pages
from windlass.api.steps.census import Census
from windlass.api.steps.probes import Probes
from windlass.api.steps.request import Request
from windlass.api.steps.state import State
from windlass.front.asgi import Scope
from windlass.front.starting import OVER_PATH

REPLACED_HEADERS = ("content-type", "content-length")


class OwnAnswers:
    """A table of pages by path."""

    def __init__(self, state: State, probes: Probes, service: str) -> None:
        """`service` is the LLMService's name, a label of its metrics."""
        self._settings, self._keys, self._service = state.settings, state.keys, service
        self._census, self._probes = Census(state), probes
        self._pages: dict[str, Callable[[Request], Awaitable[None]]] = {
            "/": self._front,
            "/chat": self._chat,
            "/windlass/facts": self._facts,
            "/windlass/metrics": self._metrics,
        }

    def find(self, request: Request) -> Callable[[Request], Awaitable[None]] | None:
        """The page of a request; None for one that the engine answers."""
        if request.is_ours and request.path == OVER_PATH:
            return self._started
        return self._pages.get(request.path) if request.method in ("GET", "HEAD") else None

    async def _started(self, request: Request) -> None:
        self._probes.end_start()
        await request.answer.give(200, b"{}\n")

    async def _front(self, request: Request) -> None:
        root = str(request.scope.get("root_path", ""))
        await request.answer.give(200, pages.front(self._names(request.scope), root))

    async def _chat(self, request: Request) -> None:
        page, headers = pages.chat()
        type_ = next((value for name, value in headers.items() if name.lower() == "content-type"), "text/html")
        others = tuple((name, value) for name, value in headers.items() if name.lower() not in REPLACED_HEADERS)
        await request.answer.give(200, page, type_.encode(), others)

    async def _facts(self, request: Request) -> None:
        required, sums = self._keys.required, await self._census.sums()
        await request.answer.give(200, pages.facts(self._settings, self._names(request.scope), sums, keys=required))

    async def _metrics(self, request: Request) -> None:
        sums = await self._census.sums()
        text = pages.metrics(sums) + pages.quantization(self._service, self._settings.quantization)
        await request.answer.give(200, text + pages.usage(self._service, sums), pages.TEXT)

    def _names(self, scope: Scope) -> tuple[str, ...]:
        return names.served(self._settings, scope.get("app"))
