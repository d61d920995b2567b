"""Switches rules of the speculation policy at run time: a round trip for each set of rules, over one cache.

Used by `bench_worker` on a GPU and by `simulated` without one. It must not import vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass_lookahead.policy import Config, config
from windlass_lookahead.round_trip import RoundTrip

Key = tuple[int, tuple[str, ...]]


class RuleSwitch:
    """Keeps each round trip that it made, so that each set of rules keeps what its own policy has learned."""

    def __init__(self, first: RoundTrip, make: Callable[[Config], RoundTrip]) -> None:
        """`first` runs with all rules; `make` makes a round trip over the same memory and cache."""
        self._make = make
        self._trips: dict[Key, RoundTrip] = {(0, ()): first}

    def to(self, rules: Sequence[str], copy: int = 0) -> RoundTrip:
        """The round trip with these rules off. Each `copy` of the same rules has a policy of its own.

        To be called while no request runs: a request lives in the round trip that it began in.

        Raises:
            ValueError: no rule has the name.
        """
        key = copy, tuple(rules)
        if key not in self._trips:
            self._trips[key] = self._make(config(rules))
        return self._trips[key]

    def close(self) -> None:
        """End the threads of all but the first, which is its owner's."""
        for key in [key for key in self._trips if key != (0, ())]:
            self._trips.pop(key).close()
