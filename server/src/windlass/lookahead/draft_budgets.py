"""Draft budgets: how many drafts to plan for a request, from the drafter to the engine's scheduler by a file that
both map.

A row with planned drafts costs the engine time on the host, whether anything is drafted or not, and each planned draft
takes a place among the tokens of a step. Two requests may share a byte; that costs time at worst, never a token.
"""

from __future__ import annotations

import functools
import mmap
import zlib
from pathlib import Path

from windlass_lookahead.round_trip import BUDGETS

UNKNOWN = 255
"""The budget of a request that the drafter has not judged yet: plans all drafts."""


class DraftBudgets:
    """One engine's requests."""

    def __init__(self, directory: str, engine: str) -> None:
        """Map the file, which is made when it is not there."""
        path = Path(directory) / f"{engine}.budgets"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            if missing := BUDGETS - file.seek(0, 2):
                file.write(bytes([UNKNOWN]) * missing)
                file.flush()
            self.memory = mmap.mmap(file.fileno(), BUDGETS)

    def of(self, request_id: str) -> int:
        """The request's draft budget, as `windlass_lookahead.policy.drafts_to_plan` reads it."""
        return self.memory[_place_of(request_id)]


@functools.lru_cache(maxsize=8192)
def _place_of(request_id: str) -> int:
    return zlib.crc32(request_id.encode()) % BUDGETS
