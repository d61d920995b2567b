"""Drafts for a device whose stream waits for them, through memory that both see; the work is done in native threads.

The device writes a step record for each row: the step's number, tokens emitted, drafts rejected, length of the text,
whose drafts it verified (CACHE, LATE or MODEL), and the newest tokens, newest first. It then rings the doorbell with
the step's number. It waits until the same number is completed, unless no drafts are planned, or the answer takes too
long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from windlass_lookahead._core import HostDrafter, SimulatedTime
from windlass_lookahead._core import RoundTrip as NativeRoundTrip
from windlass_lookahead.cache import LookaheadCache, TokenIds, sentences
from windlass_lookahead.policy import DEFAULTS, Config

RECORD_HEADER = 5
"""Words of a step record before its tokens."""
RECORDS = 32
"""Steps that have a record of their own: a step that is not waited for is written to the next of them."""
BUDGETS = 4096
"""Bytes of draft budgets, but for the one behind them: the budget of requests that have none yet."""
CACHE, LATE, MODEL = 0, 1, 2
"""Whose drafts a row has: the cache's; none, since the cache's came too late; or those of the model beside it."""
RESTED = -1
"""In the place of a number of drafts: the model beside the cache did not read either."""
PATIENCE_MS = 250
"""A host that has answered nothing for so long is thought lost: its records are reused.

Texts with holes go undrafted.
"""


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses of pinned memory, which its owner keeps as long as the round trip lives."""

    records: int
    """int32 [RECORDS, rows, RECORD_HEADER + span], by the number of the step."""
    tokens: int
    """int64 [rows, most]; a slot without a draft repeats the newest token."""
    confidences: int
    """float32 [rows, most]: that a token is accepted if those before it are; 0 without a draft."""
    doorbell: int
    """uint32, written by the device."""
    completed: int
    """uint32, read by the device."""
    budgets: int = 0
    """uint8 [BUDGETS + 1], draft budgets by the CRC-32 of a request's id; 0 for nowhere.

    A budget of 0 plans no drafts; n + 1 plans n drafts in a step that prompts fill, and all in other steps. 255 is of a
    request that the drafter has not met: the last byte has what such requests get.
    """
    model: int = 0
    """float32 [most]: that a draft of the model beside the cache is accepted if those before it are; 0 for nowhere."""


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
    models: int
    """Rows that verified drafts of the model beside the cache."""
    lost: int
    """Requests that are served without drafts: a token outside the vocabulary, or a hole in their text."""
    released: int
    """Answers that the watchdog gave."""
    wait_us: float
    """Between doorbell and answer, all steps together."""
    step_us: float
    """Of a step, a running mean from doorbell to doorbell, without the time of the model on the host."""
    hosted: int = 0
    """Steps after which the model on the host drafted."""
    host_us: float = 0.0
    """What steps waited for its drafts, all of them together."""
    rests: int = 0
    """Times that the model on the host began to rest."""
    wakes: int = 0
    """Times that it woke."""
    trials: int = 0
    """Requests that it tried while it rested."""
    outrun: int = 0
    """Trials that were given up after too many steps of reading."""
    rested: int = 0
    """Steps for which the model beside the cache neither read nor drafted."""


class RoundTrip:
    """Answers until it is closed."""

    def __init__(  # noqa: PLR0913 - sizes of memory that the caller made
        self,
        cache: LookaheadCache,
        places: Places,
        rows: int,
        most: int,
        span: int,
        *,
        patience_ms: int = PATIENCE_MS,
        policy: Config = DEFAULTS,
        time: SimulatedTime | None = None,
    ) -> None:
        """At most `rows` rows of at most `most` drafted and `span` emitted tokens.

        With a simulated time, as tests have, no thread is started: the caller serves each step.
        """
        sizes = (rows, most, span, patience_ms)
        native = NativeRoundTrip(cache.native, astuple(places), *sizes, dict(policy), time)
        if time is None:
            native.start()
        self._native: NativeRoundTrip | None = native

    def submit(
        self,
        number: int,
        finished: Sequence[str],
        begun: Sequence[tuple[str, TokenIds]],
        rows: Sequence[str],
        *,
        wanted: bool = True,
        modelled: int = 0,
    ) -> None:
        """Announce a step before its doorbell rings; numbers follow one another and wrap at 2**32.

        A step without rows only names requests, and no doorbell rings for it. Unless its drafts are `wanted` the device
        rings, but does not wait for an answer, and reads none. A model had made `modelled` drafts of each row for it,
        or RESTED.

        Raises:
            InputError: a prompt holds what is no token id; nothing was announced.
        """
        if self._native is not None:
            with sentences():
                self._native.submit(number, list(finished), list(begun), list(rows), wanted, modelled)

    def choose(
        self, rows: Sequence[str], planned: Sequence[int], costs: object, emitting: int, *, decoding: bool = True
    ) -> int:
        """How many drafts a step verifies before they are known: those with the most tokens for the time.

        `costs` is a float64 array: the milliseconds of the step with 0, 1, … drafts; its end is the most that may be
        verified. `emitting` rows get a token without any draft; the others read prompts. In a `decoding` step every row
        has one token beside its drafts, and the policy adds to the costs what such steps were seen to take.
        """
        return self._native.choose(rows, planned, costs, emitting, decoding) if self._native is not None else 0

    def add_model(self) -> None:
        """From here on a model drafts beside the cache; to be called before the first step."""
        if self._native is not None:
            self._native.add_model()

    def add_host_model(self, drafter: HostDrafter, most: int, vocabulary: int) -> None:
        """From here on a model on the host's cores drafts beside the cache; to be called before the first step.

        It drafts at most `most` tokens of a row, each below `vocabulary`. The round trip keeps the drafter.

        Raises:
            InputError: the drafter is in use already.
        """
        if self._native is not None:
            with sentences():
                self._native.add_host_model(drafter, most, vocabulary)

    def begin_wait(self) -> int:
        """The device begins to wait for the last step's answer; microseconds beside what it waits for the cache's."""
        return self._native.begin_wait() if self._native is not None else 0

    def model_drafts(self, rows: Sequence[str], model_ms: float, *, wanted: bool = True) -> int:
        """How many drafts of each row the model makes after this step: all, the first alone, or none.

        It reads what was accepted in any case, unless it rests: RESTED. `model_ms` are the milliseconds that all drafts
        take.
        """
        return self._native.model_drafts(rows, model_ms, wanted) if self._native is not None else 0

    def model_took(self, rows: int, made: int, ms: float, model_ms: float) -> None:
        """The model's work after a decoding step of `rows` rows took `ms`: it made `made` drafts of each.

        A model whose work nobody times never rests. `model_ms` as in `model_drafts`.
        """
        if self._native is not None:
            self._native.model_took(rows, made, ms, model_ms)

    def unread(self, rows: Sequence[str]) -> list[int]:
        """The places among `rows` of those that the model beside the cache has no drafts for: it rested meanwhile."""
        return self._native.unread(rows) if self._native is not None else []

    @property
    def awaited(self) -> int:
        """The step whose doorbell the drafting thread looks for: one that rings from here on is on time."""
        return self._native.awaited() if self._native else 0

    def serve_next(self) -> float:
        """Serve the announced step in the caller's thread; the microsecond at which its answer was there.

        Only with a simulated time.
        """
        if self._native is None:
            return 0.0
        self._native.serve_next()
        return self._native.completed_us()

    def counts(self) -> TripCounts:
        """What was done since the start."""
        return TripCounts(*self._native.counts()) if self._native else TripCounts(0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)

    def close(self) -> None:
        """End the threads; a device that still waits is not answered any more."""
        self._native = None
