"""How many drafts to plan for a request, from the drafter to the engine's scheduler: a small file that both map.

A row that is planned with drafts costs the engine time on the host, whether anything is drafted or not, and each of
them a place among the tokens of a step. Two requests may share a byte; that costs time at worst, never a token.
"""

from __future__ import annotations

import functools
import mmap
import zlib
from pathlib import Path

from windlass_lookahead.round_trip import PROMISES

MANY = 255


class Promises:
    """One engine's requests."""

    def __init__(self, directory: str, engine: str) -> None:
        """Map the file, which is made when it is not there."""
        path = Path(directory) / f"{engine}.promises"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            if missing := PROMISES - file.seek(0, 2):
                file.write(bytes([MANY]) * missing)
                file.flush()
            self.memory = mmap.mmap(file.fileno(), PROMISES)

    def of(self, request_id: str) -> int:
        """0 where its drafts are not worth their cost, else 1 + those that are worth a place in a full step.

        `MANY` where nobody knows better.
        """
        return self.memory[_place_of(request_id)]


@functools.lru_cache(maxsize=8192)
def _place_of(request_id: str) -> int:
    return zlib.crc32(request_id.encode()) % PROMISES
