"""Group commit: requests that arrive while the disk is busy share the next transaction and its one sync.

The event loop hands jobs to one thread; the thread takes everything that waits, has it committed, and only then wakes
the requests. One after the other by construction: no lock is held and no request sees half of another.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from windlass_license.errors import NotNowError, StandByError

log = logging.getLogger("windlass_license")

Job = Callable[[Any], Any]
Commit = Callable[[Sequence[Job]], Sequence[Any]]
Observe = Callable[[int, float], None]
MOST_AT_ONCE = 256
"""Bounds how long the first of a batch waits for the last."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: Job
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class GroupCommit:
    """Runs jobs in batches through `commit`; `observe` is told the size and the seconds of each.

    With `idle_s` a batch without a job runs whenever none came for so long: time passes for the service, too.
    """

    def __init__(
        self, commit: Commit, observe: Observe = lambda size, seconds: None, idle_s: float | None = None
    ) -> None:
        self._commit, self._observe, self._idle_s = commit, observe, idle_s
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = threading.Lock()
        self._closed = False
        if idle_s is not None:
            self._start()

    async def run(self, job: Job) -> Any:  # noqa: ANN401  whatever the job returns
        """What `job` returned, once it is durable."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(job, loop, loop.create_future())
        with self._closing:
            if self._closed:
                raise StandByError("this replica of the license server is stopping; ask again")
            if self._thread is None:
                self._start()
            self._queue.put(waiting)
        return await waiting.future

    def close(self) -> None:
        """Finish what was accepted, then stop."""
        with self._closing:
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="commits", daemon=True)
        self._thread.start()

    def _first(self) -> _Waiting | None:
        """The next job, however long it is awaited; None at the end."""
        while True:
            try:
                return self._queue.get(timeout=self._idle_s)
            except Empty:
                self._commit_nothing()

    def _commit_nothing(self) -> None:
        try:
            self._commit([])
        except StandByError:  # the seat was lost; `activation` closes this
            pass
        except NotNowError as error:
            log.warning("%s", error)
        except Exception:
            # A request gets what its batch raises, and this batch has none to give it to. Without this thread no later
            # request would be answered, so the fault is logged whole, and the next batch tries again.
            log.exception("the leases that lapsed cannot be dropped now")

    def _work(self) -> None:
        while (first := self._first()) is not None:
            batch, ended = [first], False
            while len(batch) < MOST_AT_ONCE and not ended:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    ended = True
                else:
                    batch.append(more)
            self._settle(batch)
            if ended:
                return

    def _settle(self, batch: Sequence[_Waiting]) -> None:
        begun = time.perf_counter()
        try:
            answers = self._commit([waiting.job for waiting in batch])
        except BaseException as error:  # the requests raise it, each in its place
            _wake([(waiting, None, error) for waiting in batch])
        else:
            _wake([(waiting, answer, None) for waiting, answer in zip(batch, answers, strict=True)])
        self._observe(len(batch), time.perf_counter() - begun)


_Settled = tuple[_Waiting, Any, BaseException | None]


def _wake(settled: Sequence[_Settled]) -> None:
    """One call into each event loop, however many of its requests are done."""
    loops: dict[asyncio.AbstractEventLoop, list[_Settled]] = defaultdict(list)
    for row in settled:
        loops[row[0].loop].append(row)
    for loop, rows in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, rows)


def _resolve(settled: Sequence[_Settled]) -> None:
    for waiting, answer, error in settled:
        if waiting.future.done():  # the client went away
            continue
        if error is not None:
            waiting.future.set_exception(error)
        else:
            waiting.future.set_result(answer)
