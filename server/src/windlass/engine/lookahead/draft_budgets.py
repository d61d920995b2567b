"""Draft budgets: how many drafts to plan for a request, from the drafter to the engine's scheduler by a file that
both map.

A row with planned drafts costs the engine time on the host, whether anything is drafted or not, and each planned draft
takes a place among the tokens of a step. Two requests may share a byte; that costs time at worst, never a token.
"""

from __future__ import annotations

import functools
import mmap
import zlib
from collections.abc import Callable, Iterable
from operator import itemgetter
from pathlib import Path

from windlass_lookahead.round_trip import BUDGETS

UNKNOWN = 255
"""The budget of a request that the drafter has not met; before it met any, all drafts are planned for it."""
_BYTES = BUDGETS + 1
"""The last is what unknown requests get."""


class DraftBudgets:
    """One engine's requests."""

    def __init__(self, directory: str, engine: str) -> None:
        """Map the file, which is made when it is not there."""
        path = Path(directory) / f"{engine}.budgets"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            if missing := _BYTES - file.seek(0, 2):
                file.write(bytes([UNKNOWN]) * missing)
                file.flush()
            self.memory = mmap.mmap(file.fileno(), _BYTES)
        self._ids: list[str] = []
        self._read: Callable[[bytes], tuple[int, ...]] = _reader([])

    def forget(self) -> None:
        """Nothing is known of any request: for a drafter that begins, beside what an earlier one left in the file."""
        self.memory[:] = bytes([UNKNOWN]) * _BYTES

    def of(self, request_ids: Iterable[str]) -> tuple[int, ...]:
        """The requests' draft budgets in their order, as `windlass_lookahead.policy.drafts_to_plan` reads them.

        The engine's one thread asks, of the same requests step by step: where they lie is kept for the next step.
        """
        ids = [*request_ids]
        if ids != self._ids:
            self._ids, self._read = ids, _reader(ids)
        memory = self.memory[:]
        found = self._read(memory)
        if UNKNOWN not in found:
            return found
        new = memory[BUDGETS]
        return tuple(new if budget == UNKNOWN else budget for budget in found)


def _reader(ids: list[str]) -> Callable[[bytes], tuple[int, ...]]:
    """Reads the bytes of some requests at once."""
    places = [_place_of(request_id) for request_id in ids]
    if len(places) > 1:
        return itemgetter(*places)
    return lambda memory: tuple(memory[place] for place in places)


@functools.lru_cache(maxsize=8192)
def _place_of(request_id: str) -> int:
    return zlib.crc32(request_id.encode()) % BUDGETS
