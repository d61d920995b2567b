"""Follows the engine's batch row by row: which text each request has, what is new of it, and what may come next.

A row is known by its request id, never by its place, so a draft cannot reach another request's row. Imports no engine:
`vllm_cpu` brings the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass_lookahead import InputError, LookaheadCache, LookaheadError

logger = logging.getLogger("windlass.lookahead")


@dataclass(frozen=True, slots=True)
class Row:
    """One request in a step of the engine."""

    request_id: str
    tokens: Any
    """Its settled token ids, prompt first: a list or a one-dimensional array of int32."""
    prompt_length: int
    most: int
    """Tokens that may be drafted; 0 while its prompt is still read."""


class Rows:
    """The requests that the cache knows, with the number of tokens it has seen of each."""

    def __init__(self, cache: LookaheadCache) -> None:
        self._cache = cache
        self._seen: dict[str, int] = {}
        self._refused: set[str] = set()

    @property
    def known(self) -> int:
        """Requests that are followed."""
        return len(self._seen)

    def step(self, rows: Sequence[Row], alive: Collection[str]) -> list[list[int]]:
        """A draft for each row, after its new tokens were noted; `alive` are all requests that have not ended.

        A preempted request is alive and in no row: its text stays, and it goes on where it was when it comes back.
        """
        self._forget(alive)
        ready = [row for row in rows if row.most > 0 and self._follow(row)]
        drafts = self._drafts(ready)
        return [drafts.get(row.request_id, []) for row in rows]

    def _forget(self, alive: Collection[str]) -> None:
        for request_id in [known for known in self._seen if known not in alive]:
            del self._seen[request_id]
            self._cache.finish(request_id)
        self._refused = {request_id for request_id in self._refused if request_id in alive}

    def _follow(self, row: Row) -> bool:
        """Bring the cache up to the row's text; false for a request that the cache cannot take."""
        if row.request_id in self._refused:
            return False
        seen, length = self._seen.get(row.request_id), len(row.tokens)
        try:
            if seen is None or seen > length:  # new, or the engine took tokens back
                self._cache.begin(row.request_id, row.tokens[: row.prompt_length])
                seen = row.prompt_length
            if seen < length:
                self._cache.accept([row.request_id], [row.tokens[seen:length]])
        except InputError as error:
            self._refuse(row.request_id, error)
            return False
        self._seen[row.request_id] = length
        return True

    def _refuse(self, request_id: str, error: InputError) -> None:
        logger.warning("request %s is served without lookahead: %s", request_id, error)
        self._refused.add(request_id)
        self._seen.pop(request_id, None)
        self._cache.finish(request_id)

    def _drafts(self, rows: Sequence[Row]) -> Mapping[str, list[int]]:
        if not rows:
            return {}
        ids = [row.request_id for row in rows]
        drafts = self._cache.propose(ids, [row.most for row in rows])
        return {request_id: draft.tokens for request_id, draft in zip(ids, drafts, strict=True)}


def guarded(step: Callable[[], list[list[int]]], rows: int) -> list[list[int]]:
    """The drafts of a step; none, and a sentence, when the cache fails: a request must never fail for a draft."""
    try:
        return step()
    except LookaheadError as error:
        logger.warning("a step is served without lookahead: %s", error)
        return [[] for _ in range(rows)]
