"""Drafts for a device whose stream waits for them, through memory that both see; the work is done in native threads.

The device tells of each row: the step's number, tokens emitted, drafts rejected, length of the text, whether the drafts
before came too late, and the newest tokens, newest first. It then rings with the step's number and waits until the same
number is answered, unless nobody wants the drafts of that step, or the answer takes too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from windlass_lookahead._core import RoundTrip as NativeRoundTrip
from windlass_lookahead.cache import LookaheadCache, TokenIds, sentences

TOLD = 5
"""Numbers of a told row before its tokens."""
TURNS = 32
"""Steps that have room of their own: by its number, one that is not waited for is told in the next of them."""
PROMISES = 4096
PATIENCE_MS = 250
"""A host that has answered nothing for so long is thought lost: its turns are taken, texts with holes go undrafted."""


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses of pinned memory, which its owner keeps as long as the round trip lives."""

    told: int
    """int32 [TURNS, rows, TOLD + span], by the number of the step."""
    tokens: int
    """int64 [rows, most]; a slot without a draft repeats the newest token."""
    confidences: int
    """float32 [rows, most]: that a token is accepted if those before it are; 0 without a draft."""
    rung: int
    """uint32, written by the device."""
    answered: int
    """uint32, read by the device."""
    promises: int = 0
    """uint8 [PROMISES], by the CRC-32 of a request's id; 0 for nowhere.

    0 where its drafts are not worth their cost, else 1 + those that are worth a place in a full step.
    """


@dataclass(frozen=True, slots=True)
class TripCounts:
    """What was done since the start."""

    steps: int
    in_time: int
    """Rows that the device waited for."""
    later: int
    """Rows that were followed after the answer."""
    missed: int
    """Rows that verified something else in the place of drafts that came too late."""
    lost: int
    """Requests that are served without drafts: a token outside the vocabulary, or a hole in their text."""
    released: int
    """Answers that the watchdog gave."""
    wait_us: float
    """Between ring and answer, all steps together."""
    step_us: float
    """Of a step, a running mean from ring to ring."""


class RoundTrip:
    """Answers until it is closed."""

    def __init__(
        self, cache: LookaheadCache, places: Places, rows: int, most: int, span: int, patience_ms: int = PATIENCE_MS
    ) -> None:
        """At most `rows` rows of at most `most` drafted and `span` emitted tokens."""
        addresses = astuple(places)
        self._native: NativeRoundTrip | None = NativeRoundTrip(cache.native, addresses, rows, most, span, patience_ms)

    def submit(
        self,
        number: int,
        finished: Sequence[str],
        begun: Sequence[tuple[str, TokenIds]],
        rows: Sequence[str],
        *,
        wanted: bool = True,
    ) -> None:
        """Announce a step before the device rings for it; numbers follow one another and wrap at 2**32.

        Without rows it only tells of requests: nobody rings for it. Unless its drafts are `wanted` the device rings,
        but does not wait for an answer, and reads none.

        Raises:
            InputError: a prompt holds what is no token id; nothing was announced.
        """
        if self._native is not None:
            with sentences():
                self._native.submit(number, list(finished), list(begun), list(rows), wanted)

    def choose(
        self, rows: Sequence[str], planned: Sequence[int], costs: object, emitting: int, *, decoding: bool = True
    ) -> int:
        """How many drafts of a step to verify before they are known: those with the most tokens for the time.

        `costs` is a float64 array: the time of the step with 0, 1, … drafts; its end is the most that may be verified.
        `emitting` rows get a token without any; the others read prompts. In a `decoding` step every row has one token
        beside its drafts: the costs are set right by what such steps were seen to take. Rows are expected to be
        drafted for as they were last. None while the answers are two steps late.
        """
        return self._native.choose(rows, planned, costs, emitting, decoding) if self._native is not None else 0

    @property
    def awaited(self) -> int:
        """The step whose ring is looked for now: one that comes from here on is on time."""
        return self._native.awaited() if self._native else 0

    def counts(self) -> TripCounts:
        """What was done since the start."""
        return TripCounts(*self._native.counts()) if self._native else TripCounts(0, 0, 0, 0, 0, 0, 0.0, 0.0)

    def close(self) -> None:
        """End the threads; a device that still waits is not answered any more."""
        self._native = None
