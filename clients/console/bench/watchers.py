"""One user's live list, read as a page reads it: which resource versions come, and when."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2


class Watcher:
    """Follows the services of all namespaces."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self.whole = asyncio.Event()
        self.first_rows = 0
        self.seen: dict[int, float] = {}
        self.ready: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        headers = {"Authorization": f"Bearer {self._token}"}
        async with (
            httpx2.AsyncClient(base_url=self._url, headers=headers, trust_env=False, timeout=120) as http,
            http.stream("GET", "/api/services/watch", params={"namespace": "*"}) as answer,
        ):
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self._take(json.loads(line.removeprefix("data: ")))
        raise RuntimeError("the stream ended")

    def _take(self, batch: dict[str, Any]) -> None:
        rows, now = batch["upserted"], time.monotonic()
        for row in rows:
            self.seen[int(row["resourceVersion"])] = now
            self.ready[row["namespace"], row["name"]] = row["ready"]
        if batch["reset"]:
            self.first_rows = len(rows)
            self.whole.set()
