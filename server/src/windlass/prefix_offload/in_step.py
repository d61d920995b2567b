"""Whether a prefix is copied inside the step that uses it, or between steps. Pure, standard library only.

Between steps a copy holds up nobody, and it costs the request one more step: to see the copy's end, and to launch what
computes the last tokens. Inside the step the launches happen while the bytes move. Whoever else is in that step waits
for the bytes as well, so a request goes this way only where it is alone.
"""

from __future__ import annotations

from collections.abc import Iterable

BYTES_MAX = 2 << 30
"""Of one copy inside a step. A request that arrives meanwhile waits for it: about 40 ms on a bus of 55 GB/s."""


class InStep:
    """Which requests are copied inside their step; the scheduler's side."""

    def __init__(self, token_bytes: int, chunk_tokens: int) -> None:
        """`token_bytes`: of the KV cache of one token on one card; `chunk_tokens`: what is kept together."""
        self._tokens_max = BYTES_MAX // max(1, token_bytes)
        self._chunk_tokens = chunk_tokens
        self._running: set[str] = set()
        self._asked = ""
        self._granted: set[str] = set()

    def allows(self, request: str, found: int, left: int) -> bool:
        """Whether `found` tokens may be copied inside the step; `left` tokens are computed after them.

        A chunk among those would be kept in the same step, and the engine starts no copy of a request's blocks to host
        memory while one from there is under way.
        """
        fits = found <= self._tokens_max and left < self._chunk_tokens
        alone = not self._granted and not self._running - {request}
        self._asked = request if fits and alone else ""
        return bool(self._asked)

    def allocated(self, request: str) -> None:
        """The request has its blocks, so it is in this step."""
        if request == self._asked:
            self._granted.add(request)

    def ended(self, request: str) -> None:
        """It runs no more."""
        self._running.discard(request)

    def scheduled(self, requests: Iterable[str]) -> frozenset[str]:
        """The step has these requests; of them, those that are copied inside it."""
        granted, self._granted, self._asked = frozenset(self._granted), set(), ""
        self._running = set(requests)
        return granted
