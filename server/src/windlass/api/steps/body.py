"""Step 8: the body, read and rewritten as the engine gets it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from windlass.api import body
from windlass.api.body import Body
from windlass.api.steps.request import Request
from windlass.front.intake import SMALL_BYTES, Intake
from windlass.front.settings import ApiSettings

PARSERS = 2
"""Threads for large bodies: one holds the interpreter at a time, and a second begins while the first one ends."""


class BodyReader:
    """Reads bodies; refuses a slow one (408), one without room (429) and one that the engine cannot take (400, 404)."""

    def __init__(self, settings: ApiSettings) -> None:
        """Large bodies are parsed in threads, so that the event loop goes on."""
        self._settings = settings
        self._parsers = ThreadPoolExecutor(PARSERS, "windlass-parse")

    async def __call__(self, request: Request, intake: Intake) -> Body:
        """The body for the engine."""
        raw = await intake.read()
        route, models = request.route, request.key.models
        if not route.json:
            return Body(raw)
        if len(raw) <= SMALL_BYTES:
            return body.rewrite(raw, route, self._settings, models)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parsers, body.rewrite, raw, route, self._settings, models)
