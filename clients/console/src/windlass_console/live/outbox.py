"""What one stream has still to send: of each service the last row alone, so that a slow page costs one list at most."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from windlass_base.kube.errors import ClientError

from windlass_console.views.row import Row

Key = tuple[str, str]  # namespace and name
Batch = dict[str, object]
JOIN_S = 0.2  # changes of this long go out together


class Outbox:
    """The pending changes of one stream over one or several lists."""

    def __init__(self, lists: int = 1) -> None:
        """`lists` is how many lists must be whole before the first batch goes out."""
        self._missing = lists
        self._first = True
        self._pending: dict[Key, Row | None] = {}
        self._error: ClientError | None = None
        self._changed = asyncio.Event()

    def listed(self, rows: Mapping[Key, Row]) -> None:
        """One list is whole, and these are its rows."""
        self._pending.update(rows)
        self._missing -= 1
        self._changed.set()

    def put(self, key: Key, row: Row | None) -> None:
        """A service as it is now; None when it is gone."""
        self._pending[key] = row
        self._changed.set()

    def fail(self, error: ClientError) -> None:
        """The list cannot be followed further."""
        self._error = error
        self._changed.set()

    async def batch(self) -> Batch:
        """The next changes; the first batch is everything there is. Raises what ended a list."""
        while True:
            await self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._missing <= 0:
                break
            self._changed.clear()
        if not self._first:
            await asyncio.sleep(JOIN_S)
        self._changed.clear()
        pending, self._pending = self._pending, {}
        answer: Batch = {
            "upserted": [row for row in pending.values() if row is not None],
            "deleted": [{"namespace": key[0], "name": key[1]} for key, row in pending.items() if row is None],
            "synced": True,
            "reset": self._first,
        }
        self._first = False
        return answer
