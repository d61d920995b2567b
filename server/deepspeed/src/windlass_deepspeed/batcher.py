"""Runs the batch: one thread asks `schedule` what is next, calls the decoder, and hands text to the requests.

Requests come from and go to an event loop; `submit` and `cancel` may be called from any thread. Everything that the
decoder does happens in this one thread, so the engine needs no lock.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass_deepspeed import schedule
from windlass_deepspeed.decoder import Decoder, Start
from windlass_deepspeed.errors import RequestError
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.progress import Decode, Piece, Progress
from windlass_deepspeed.sampling import Sampling

log = logging.getLogger(__name__)
Listener = Callable[[Piece | RequestError], None]


@dataclass(slots=True)
class Job:
    """A request in the batcher's hands."""

    start: Start
    progress: Progress
    listener: Listener
    since_s: float = field(default_factory=time.monotonic)


class Batcher:
    """The queue, the batch and the thread."""

    def __init__(
        self,
        decoder: Decoder,
        decode: Decode,
        stop_ids: frozenset[int],
        limits: schedule.Limits,
        metrics: Metrics,
        number: int = 0,
    ) -> None:
        self._decoder, self._decode, self._stop_ids = decoder, decode, stop_ids
        self._limits, self._metrics, self._name = limits, metrics, str(number)
        self._keys = itertools.count(1)
        self._changed = threading.Condition()
        self._waiting: dict[int, Job] = {}
        self._live: dict[int, Job] = {}
        self._gone: set[int] = set()
        self._open = True
        self._failed = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)
        metrics.watch(lambda: len(self._live), lambda: len(self._waiting))

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """End after the step that is running; what is not finished is dropped."""
        with self._changed:
            self._open = False
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def healthy(self) -> bool:
        """Whether requests are served."""
        return self._open and not self._failed

    @property
    def load(self) -> int:
        """Requests that wait or are in the batch."""
        return len(self._waiting) + len(self._live)

    @property
    def failed(self) -> bool:
        """Whether the engine failed."""
        return self._failed

    def submit(self, prompt: Sequence[int], sampling: Sampling, listener: Listener) -> int:
        """Queue a request; its pieces go to the listener, called in the batcher's thread. The key cancels it."""
        with self._changed:
            if not self.healthy:
                raise RequestError("the engine has stopped; ask again when it was restarted", status=503)
            key = next(self._keys)
            progress = Progress(self._decode, sampling, self._stop_ids)
            self._waiting[key] = Job(Start(key, tuple(prompt), sampling), progress, listener)
            self._changed.notify()
        return key

    def cancel(self, key: int) -> None:
        """Nobody listens any more: free the request's row before the next step. Unknown keys are fine."""
        with self._changed:
            waited = self._waiting.pop(key, None)
            if waited is None and key in self._live:
                self._gone.add(key)
            self._changed.notify()
        if waited is not None:
            self._metrics.requests.labels("gone").inc()

    def _run(self) -> None:
        try:
            while self._open:
                self._turn()
        except Exception:  # the thread's outermost loop: nobody above could tell the requests
            log.exception("the engine failed; every request ends with an error")
            self._failed = True
        self._end_all()

    def _turn(self) -> None:
        with self._changed:
            gone, self._gone = self._gone & self._live.keys(), set()
            action = self._next(len(self._live) - len(gone))
            if isinstance(action, schedule.Sleep) and not gone:
                self._changed.wait(action.seconds)
                return
            joined = [self._waiting.pop(key) for key in list(self._waiting)[: _count(action)]]
            self._live |= {job.start.key: job for job in joined}
        self._drop(gone, "gone")
        if joined:
            self._join(joined)
        elif isinstance(action, schedule.Step):
            self._metrics.batch_size.observe(len(self._live))
            self._deliver(self._decoder.step())

    def _next(self, live: int) -> schedule.Sleep | schedule.Join | schedule.Step:
        oldest_s = next((job.since_s for job in self._waiting.values()), 0.0)
        return schedule.decide(len(self._waiting), oldest_s, live, time.monotonic(), self._limits)

    def _join(self, joined: list[Job]) -> None:
        self._metrics.batch_size.observe(len(joined))
        self._metrics.joined.labels(self._name).inc(len(joined))
        tokens = self._decoder.join([job.start for job in joined])
        now_s = time.monotonic()
        for job in joined:
            self._metrics.prompt_tokens.inc(len(job.start.prompt))
            self._metrics.first_token_s.observe(now_s - job.since_s)
        self._deliver(tokens)

    def _deliver(self, tokens: Mapping[int, int]) -> None:
        """Hand the text out; finished rows leave at once."""
        ended: dict[str, set[int]] = {}
        for key, token in tokens.items():
            job = self._live[key]
            piece = job.progress.feed(token)
            if piece.text or piece.finish_reason:
                job.listener(piece)
            if piece.finish_reason:
                ended.setdefault(piece.finish_reason, set()).add(key)
        self._metrics.generation_tokens.inc(len(tokens))
        for reason, keys in ended.items():
            self._drop(keys, reason)

    def _drop(self, keys: set[int], outcome: str) -> None:
        here = keys & self._live.keys()
        if not here:
            return
        self._decoder.leave(here)
        with self._changed:
            for key in here:
                del self._live[key]
        self._metrics.requests.labels(outcome).inc(len(here))

    def _end_all(self) -> None:
        """Tell every request that is left that there is no answer."""
        with self._changed:
            self._open = False
            jobs = [*self._live.values(), *self._waiting.values()]
            self._live, self._waiting = {}, {}
        for job in jobs:
            self._metrics.requests.labels("error").inc()
            job.listener(RequestError("the engine stopped before the answer was ready; ask again", status=503))


def _count(action: schedule.Sleep | schedule.Join | schedule.Step) -> int:
    return action.count if isinstance(action, schedule.Join) else 0
