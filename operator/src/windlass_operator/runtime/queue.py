"""The work queue between the watches and the one reconcile: keyed, coalescing, rate-limited.

`Schedule` is the pure core (time is a parameter); `WorkQueue` is the asyncio shell. A key is never worked on twice at
once; any number of events while it waits or runs make one further run; failures back off exponentially.
kopf's own queue is not enough: it is keyed by the watched object, not by the LLMService that owns it.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from windlass_base.json_lines import fields

from windlass_operator.errors import Retry, Unavailable
from windlass_operator.runtime import metrics

logger = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
ERROR_WORDS = 512
STARTED_FIRST = 1000
WORKERS = 32  # of which most wait for the API server or a pod's facts
SHARE = 24  # of them at most for one namespace, so that the others never wait for all


@dataclass(frozen=True, slots=True)
class Limits:
    """How often one key may run, and how failures back off."""

    interval_s: float = 0.5  # between two starts of the same key: an event storm is one run
    backoff_first_s: float = 1.0
    backoff_max_s: float = 300.0

    def backoff_s(self, failures: int) -> float:
        """The wait after the n-th failure in a row."""
        return float(min(self.backoff_max_s, self.backoff_first_s * 2 ** min(failures - 1, 30)))


class Schedule(Generic[K]):
    """Which key is due when, which ones run; knows no clock. Every step is O(log n)."""

    def __init__(self, limits: Limits, share: int = SHARE) -> None:
        self._limits = limits
        self._share = share
        self._working: Counter[object] = Counter()  # keys that run, by namespace
        self._held: dict[object, dict[K, None]] = {}  # due keys of namespaces that have their share; in no row
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # rows that disagree with _due, or whose key runs, are stale
        self._count = 0
        self._running: set[K] = set()
        self._started: dict[K, float] = {}
        self._started_max = STARTED_FIRST
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, due: float) -> None:
        """Ask for a run not before `due`; the earliest wish wins, the per-key interval is kept."""
        if self.hastens(key, due):
            self._due[key] = self._earliest(key, due)
            if key not in self._running and key not in self._held.get(_namespace(key), ()):
                self._push(key)

    def hastens(self, key: K, due: float) -> bool:
        """Whether asking for a run not before `due` changes when the next one begins."""
        return self._earliest(key, due) < self._due.get(key, float("inf"))

    def _earliest(self, key: K, due: float) -> float:
        return max(due, self._started.get(key, float("-inf")) + self._limits.interval_s)

    def _push(self, key: K) -> None:
        self._count += 1  # of two keys due at once, the one asked for first comes first
        heapq.heappush(self._heap, (self._due[key], self._count, key))

    def take(self, now: float) -> K | None:
        """The key that waits longest of those due and not running, marked as running; None when there is none."""
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            namespace = _namespace(key)
            if self._working[namespace] >= self._share:
                self._held.setdefault(namespace, {})[key] = None
                continue
            del self._due[key]
            self._running.add(key)
            self._working[namespace] += 1
            self._started[key] = now
            self._prune(now)
            return key
        return None

    def _prune(self, now: float) -> None:
        """Forget starts that hold up nobody any more, each time there are twice as many as were left."""
        if len(self._started) > self._started_max:
            since = now - self._limits.interval_s
            self._started = {key: begun for key, begun in self._started.items() if begun > since}
            self._started_max = max(STARTED_FIRST, 2 * len(self._started))

    def next_due(self) -> float | None:
        """When the next key that does not run becomes due."""
        while self._heap:
            due, _, key = self._heap[0]
            if self._due.get(key) == due and key not in self._running:
                return due
            heapq.heappop(self._heap)
        return None

    def succeed(self, key: K, now: float, again_in_s: float | None) -> None:
        """The run ended well; it may ask for another one."""
        self._ended(key)
        self._failures.pop(key, None)
        if again_in_s is not None:
            self.add(key, now + again_in_s)

    def fail(self, key: K, now: float, jitter: float) -> float:
        """The run failed: back off exponentially, up to `jitter` (0…1) of a quarter longer; returns the wait."""
        self._ended(key)
        self._failures[key] = self._failures.get(key, 0) + 1
        wait_s = self._limits.backoff_s(self._failures[key]) * (1 + jitter / 4)
        self.add(key, now + wait_s)
        return wait_s

    def _ended(self, key: K) -> None:
        self._running.discard(key)
        if key in self._due:  # asked for while it ran
            self._push(key)
        namespace = _namespace(key)
        self._working[namespace] -= 1
        if not self._working[namespace]:
            del self._working[namespace]
        self._let_in(namespace)

    def _let_in(self, namespace: object) -> None:
        """Give the key that was held first its turn."""
        if held := self._held.get(namespace):
            key = next(iter(held))
            self._free(namespace, key)
            self._push(key)

    def _free(self, namespace: object, key: K) -> None:
        held = self._held.get(namespace, {})
        held.pop(key, None)
        if not held:
            self._held.pop(namespace, None)

    def forget(self, key: K) -> None:
        """The object is gone: keep nothing of it."""
        namespace = _namespace(key)
        self._free(namespace, key)
        self._let_in(namespace)  # it may have been let in itself
        for table in (self._due, self._started, self._failures):
            table.pop(key, None)


Work = Callable[[K], Awaitable[float | None]]
Failed = Callable[[K, Exception], Awaitable[None]]  # is told of a failure that nobody meant


def _namespace(key: object) -> object:
    return getattr(key, "namespace", None)


def _named(key: object) -> dict[str, object]:
    """The fields of a key's log records: namespace and name, where it has them."""
    return {name: getattr(key, name) for name in ("namespace", "name") if hasattr(key, name)}


async def _nobody(_key: object, _error: Exception) -> None:
    """Nobody is told."""


class WorkQueue(Generic[K]):
    """The asyncio shell around `Schedule`: workers that take due keys and call `work(key)`."""

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic, workers: int = WORKERS
    ) -> None:
        self._schedule: Schedule[K] = Schedule(limits or Limits())
        self._clock = clock
        self._workers = workers
        self._changed = asyncio.Event()
        self._asked: dict[K, float] = {}  # when the first event came that no run has answered yet
        self._told: dict[K, str] = {}  # the failure whose traceback the log has
        self._working = 0  # times that `run` is under way
        self._since = 0.0  # when the last of them began: a stand-by's keys have waited for nobody

    def __len__(self) -> int:
        return len(self._schedule)

    def add(self, key: K, after_s: float = 0.0) -> None:
        """Ask for a run of the key; any number of asks before it runs are one run."""
        self._schedule.add(key, self._clock() + after_s)
        self._changed.set()

    def event(self, key: K) -> None:
        """Something happened to the key: ask for a run now, and measure how long it is until that run has ended."""
        if self._working:  # on a stand-by somebody else answers it
            self._asked.setdefault(key, self._clock())
        self.add(key)

    def asked(self, key: K) -> bool:
        """Whether an event of the key would change nothing: a run that has not begun yet will answer it as well."""
        return (key in self._asked or not self._working) and not self._schedule.hastens(key, self._clock())

    def forget(self, key: K) -> None:
        """Drop what is kept of a key whose object is gone."""
        self._schedule.forget(key)
        self._asked.pop(key, None)
        self._told.pop(key, None)

    @property
    def working(self) -> bool:
        """Whether this replica works on the queue, and does not stand by."""
        return self._working > 0

    def oldest_s(self) -> float:
        """How long the key that waits longest has been due; 0 when none is, or when this queue is not being worked."""
        due = self._schedule.next_due()
        return max(0.0, self._clock() - due) if self._working and due is not None else 0.0

    async def run(self, work: Work[K], failed: Failed[K] = _nobody) -> None:
        """Work until cancelled; `failed` is told of every failure of a key that nobody meant."""
        self._working += 1
        self._since = self._clock()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._worker(work, failed))
        finally:
            self._working -= 1

    async def _worker(self, work: Work[K], failed: Failed[K]) -> None:
        while True:
            key = await self._take()
            with fields(**_named(key)):
                error = await self._work_one(work, key)
                if error is not None:
                    await self._tell(failed, key, error)

    async def _tell(self, failed: Failed[K], key: K, error: Exception) -> None:
        """Tell whom it concerns, and the log: with the traceback once, for it comes again until something changes."""
        words = f"{type(error).__name__}: {error}"[:ERROR_WORDS]
        logger.error("%s: reconcile failed: %s", key, words, exc_info=None if self._told.get(key) == words else error)
        self._told[key] = words
        try:
            await failed(key, error)
        except Exception:  # the telling fails as the work did
            logger.exception("%s: its failure cannot be told", key)

    async def _take(self) -> K:
        while True:
            metrics.QUEUE_DEPTH.set(len(self._schedule))
            due, now = self._schedule.next_due(), self._clock()
            key = self._schedule.take(now)
            if key is not None and due is not None:
                metrics.QUEUE_WAIT_SECONDS.observe(now - max(due, self._since))
                self._changed.set()  # another worker now waits for the next due time
                return key
            self._changed.clear()
            await self._wait(self._schedule.next_due())

    async def _wait(self, due: float | None) -> None:
        """Sleep until something changes or `due` comes."""
        timeout_s = None if due is None else max(0.0, due - self._clock())
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _work_one(self, work: Work[K], key: K) -> Exception | None:
        """One run; returns the failure that nobody meant."""
        asked = self._asked.pop(key, None)
        try:
            with metrics.RECONCILE_SECONDS.time():
                again_in_s = await work(key)
        except Retry as retry:
            logger.info("%s: %s; again in %.0f s", key, retry, retry.after_s)
            again_in_s = retry.after_s
        except Unavailable as error:
            logger.warning("%s: %s; again in %.1f s", key, error, self._failed(key, asked))
            return None
        except Exception as error:  # the outermost loop: one broken object must never stop the others
            self._failed(key, asked)
            return error
        except asyncio.CancelledError:  # the workers stop; whoever works next has it to do
            self._schedule.succeed(key, self._clock(), 0.0)
            raise
        self._schedule.succeed(key, self._clock(), again_in_s)
        self._changed.set()
        if asked is not None:
            metrics.EVENT_TO_APPLY_SECONDS.observe(self._clock() - asked)
        self._told.pop(key, None)
        return None

    def _failed(self, key: K, asked: float | None) -> float:
        """Back off; the event that led to this run is still to be answered. Returns the wait."""
        metrics.RECONCILE_ERRORS.inc()
        if asked is not None:
            self._asked[key] = min(asked, self._asked.get(key, asked))
        wait_s = self._schedule.fail(key, self._clock(), random.random())  # noqa: S311 - jitter, not a secret
        self._changed.set()
        return wait_s
