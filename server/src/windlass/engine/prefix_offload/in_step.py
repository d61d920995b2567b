"""Whether a prefix is copied inside the step that uses it, or between steps. Pure, standard library only.

Between steps a copy delays no other request, and its own request waits for one more step: to see the copy's end, and to
launch what computes the last tokens. Inside the step the launches happen while the bytes move. Other requests of that
step wait for the bytes too, so only a request that is alone goes this way.
"""

from __future__ import annotations

BYTES_MAX = 2 << 30
"""Of one copy inside a step. A request that arrives meanwhile waits for it: about 40 ms on a bus of 55 GB/s."""


class InStep:
    """Which requests are copied inside their step; the scheduler's side."""

    def __init__(self, token_bytes: int, chunk_tokens: int) -> None:
        """`token_bytes`: of the KV cache of one token on one card; `chunk_tokens`: what is kept together."""
        self._tokens_max = BYTES_MAX // max(1, token_bytes)
        self._chunk_tokens = chunk_tokens
        self._running: set[str] = set()
        self._candidate = ""
        self._in_this_step: set[str] = set()

    def allows(self, request: str, found: int, left: int, *, loads: bool = False) -> bool:
        """Whether `found` tokens may be copied inside the step; `left` tokens are computed after them.

        A chunk among those would be kept in the same step, and the engine starts no copy of a request's blocks to host
        memory while one from there is under way. Nothing left to compute is no step of the engine at all. `loads`:
        whether copies of other requests are under way; the next one starts after them.
        """
        fits = found <= self._tokens_max and 0 < left < self._chunk_tokens
        alone = not loads and not self._in_this_step and not self._running - {request}
        self._candidate = request if fits and alone else ""
        return bool(self._candidate)

    def joined(self, request: str) -> bool:
        """The request has its blocks, so it runs from here on; whether it is copied inside this step."""
        self._running.add(request)
        inside = request == self._candidate
        if inside:
            self._in_this_step.add(request)
        return inside

    def ended(self, *requests: str) -> None:
        """They run no more: finished, or preempted."""
        self._running.difference_update(requests)

    def taken(self) -> frozenset[str]:
        """Those that are copied inside the step which is built now."""
        found, self._in_this_step, self._candidate = frozenset(self._in_this_step), set(), ""
        return found
