"""Counts of the state's parts, of this API process and of all."""

from __future__ import annotations

from collections import Counter

from windlass.api.steps.state import State
from windlass.front.processes import numbers
from windlass.front.processes.member import SharedGate, SharedLimits
from windlass.front.processes.numbers import Numbers


class Census:
    """Counts for the pages, and for the owner of several processes."""

    def __init__(self, state: State) -> None:
        """Let the owner ask for our own counts."""
        self._state = state
        if state.link:
            state.link.counted = self.own

    async def sums(self) -> Numbers:
        """Counts of all API processes."""
        return await self._state.link.sums() if self._state.link else self.own()

    def own(self) -> Numbers:
        """Counts of this process; places and replicas are the owner's where there is one."""
        state = self._state
        accounts = state.accounts
        held = [] if isinstance(state.gate, SharedGate) else [numbers.of_gate(state.gate)]
        held += [] if isinstance(state.replicas, SharedLimits) else [numbers.of_replicas(state.replicas)]
        own: Numbers = Counter()
        own[numbers.UNREAD,], own[numbers.ENDED,] = state.stock.unread_bytes, state.stock.ended
        own[numbers.BODIES,], own[numbers.UNRECORDED,] = state.bodies.shares.held_bytes, accounts.journals.unrecorded
        own[numbers.KEYS_WRONG,] = int(state.keys.is_wrong)
        own.update({(numbers.REFUSED, str(status)): number for status, number in state.refused.items()})
        own.update({(numbers.OVER_LIMIT, *place): number for place, number in accounts.limiter.refused.items()})
        return numbers.added([own, numbers.usage(accounts.totals), *held])
