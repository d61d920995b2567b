"""The queue: one run at a time a key, any number of asks are one run, failures back off."""

from __future__ import annotations

import asyncio

import pytest
from windlass_operator.errors import Retry, Unavailable
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime import metrics
from windlass_operator.runtime.queue import Limits, Schedule, WorkQueue
from windlass_testbed.waiting import HANG_S, wait_until_async

LIMITS = Limits(interval_s=1.0, backoff_first_s=2.0, backoff_max_s=60.0)


def test_many_asks_are_one_run():
    schedule = Schedule(LIMITS)
    for _ in range(10):
        schedule.add("a", 0.0)
    assert schedule.take(0.0) == "a"
    assert schedule.take(0.0) is None


def test_a_key_that_runs_waits_for_its_end():
    """An event during a run makes one further run, after it."""
    schedule = Schedule(LIMITS)
    schedule.add("a", 0.0)
    schedule.take(0.0)
    schedule.add("a", 0.5)
    assert schedule.take(10.0) is None
    schedule.succeed("a", 10.0, None)
    assert schedule.take(10.0) == "a"


def test_the_interval_of_a_key_is_kept():
    """A storm of events is a run a second, not a run an event."""
    schedule = Schedule(LIMITS)
    schedule.add("a", 0.0)
    schedule.take(0.0)
    schedule.succeed("a", 0.1, None)
    schedule.add("a", 0.2)
    assert schedule.take(0.9) is None
    assert schedule.take(1.0) == "a"


def test_the_earliest_wish_wins():
    """A poll in the far future does not hold up an event, and the event takes the poll's place."""
    schedule = Schedule(LIMITS)
    schedule.add("a", 100.0)
    schedule.add("a", 5.0)
    assert schedule.next_due() == 5.0
    assert schedule.take(5.0) == "a"
    assert schedule.next_due() is None


def test_the_longest_waiting_key_comes_first():
    schedule = Schedule(LIMITS)
    for key, due in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        schedule.add(key, due)
    assert [schedule.take(9.0) for _ in range(4)] == ["a", "b", "c", None]


def test_failures_back_off_up_to_a_limit_and_a_success_forgets_them():
    schedule, now, waits = Schedule(LIMITS), 0.0, []
    for _ in range(7):
        schedule.add("a", now)
        now = schedule.next_due()
        schedule.take(now)
        waits.append(schedule.fail("a", now, jitter=0.0))
        now += waits[-1]
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    schedule.take(now)
    schedule.succeed("a", now, None)
    schedule.add("a", now + 5)
    schedule.take(now + 5)
    assert schedule.fail("a", now + 5, jitter=1.0) == 2.5


def test_a_namespace_has_its_share_of_the_runs():
    """Many objects that take long keep no other namespace waiting for all workers."""
    schedule: Schedule[Key] = Schedule(Limits(), share=2)
    for number in range(5):
        schedule.add(Key("many", f"a-{number}"), 0.0)
    schedule.add(Key("few", "b"), 1.0)
    taken = [schedule.take(1.0) for _ in range(4)]
    assert taken == [Key("many", "a-0"), Key("many", "a-1"), Key("few", "b"), None]
    assert schedule.next_due() is None
    schedule.add(Key("many", "a-3"), 0.5)  # which waits already
    schedule.succeed(Key("many", "a-1"), 2.0, None)
    assert [schedule.take(2.0) for _ in range(2)] == [Key("many", "a-2"), None]
    schedule.succeed(Key("many", "a-0"), 2.0, None)
    schedule.forget(Key("many", "a-3"))
    assert [schedule.take(2.0) for _ in range(2)] == [Key("many", "a-4"), None]
    for name in ("a-2", "a-4"):
        schedule.fail(Key("many", name), 3.0, 0.0)
    assert [schedule.take(9.0) for _ in range(3)] == [Key("many", "a-2"), Key("many", "a-4"), None]


def test_a_forgotten_key_does_not_run():
    schedule = Schedule(LIMITS)
    schedule.add("a", 0.0)
    schedule.forget("a")
    assert schedule.take(1.0) is None


@pytest.fixture
async def run():
    """Runs a queue with the given work until the test ends."""
    tasks = []

    def start(queue, work):
        tasks.append(asyncio.create_task(queue.run(work)))

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


FAST = Limits(interval_s=0.0, backoff_first_s=0.01, backoff_max_s=0.02)


async def test_work_is_called_for_each_key(run):
    queue, seen = WorkQueue(FAST, workers=2), []
    done = asyncio.Event()

    async def work(key):
        seen.append(key)
        if len(seen) == 3:
            done.set()

    run(queue, work)
    for key in "abc":
        queue.add(key)
    await asyncio.wait_for(done.wait(), HANG_S)
    assert sorted(seen) == ["a", "b", "c"]


async def test_a_failing_key_is_tried_again_and_holds_up_nobody(run):
    """Whatever the work raises, the workers live on."""
    queue, seen = WorkQueue(FAST, workers=1), []
    done = asyncio.Event()

    async def work(key):
        seen.append(key)
        if key == "bad" and seen.count("bad") < 3:
            raise RuntimeError("broken object")
        if {"bad", "good"} <= set(seen) and seen.count("bad") == 3:
            done.set()

    run(queue, work)
    queue.add("bad")
    queue.add("good")
    await asyncio.wait_for(done.wait(), HANG_S)
    assert seen.count("bad") == 3


async def test_a_run_may_ask_for_another(run):
    queue, seen = WorkQueue(FAST), []
    done = asyncio.Event()

    async def work(key):
        seen.append(key)
        if len(seen) == 3:
            done.set()
            return None
        if len(seen) == 2:
            raise Retry("not yet", after_s=0.01)
        return 0.01

    run(queue, work)
    queue.add("a")
    await asyncio.wait_for(done.wait(), HANG_S)
    assert seen == ["a", "a", "a"]


async def test_one_key_is_never_worked_on_twice_at_once(run):
    """Asks during a run wait for its end, though workers are free: another key runs meanwhile."""
    queue, begun, free = WorkQueue(FAST, workers=4), [], asyncio.Event()

    async def work(key):
        begun.append(key)
        if key == "a":
            await free.wait()

    run(queue, work)
    for turn in range(20):
        queue.add("a")
        queue.add(turn)
        await wait_until_async(lambda turn=turn: turn in begun or begun.count("a") > 1)
        assert begun.count("a") == 1
    free.set()
    await wait_until_async(lambda: begun.count("a") == 2)


def _measured(histogram=metrics.EVENT_TO_APPLY_SECONDS):
    (family,) = histogram.collect()
    values = {sample.name.rsplit("_", 1)[-1]: sample.value for sample in family.samples if "le" not in sample.labels}
    return values["count"], values["sum"]


async def test_an_event_is_measured_until_its_run_has_succeeded(run):
    """A failed run does not answer it; a wish of our own is no event."""
    now, seen, done = 0.0, [], asyncio.Event()
    queue = WorkQueue(FAST, clock=lambda: now)

    async def work(key):
        nonlocal now
        seen.append(key)
        now += 7.0
        if key == "event" and seen.count(key) == 1:
            raise RuntimeError("not yet")
        if seen.count("event") == 2 and key == "event":
            done.set()

    count, total = _measured()
    run(queue, work)
    await asyncio.sleep(0)
    queue.event("event")
    queue.event("event")
    queue.add("wish")
    await asyncio.wait_for(done.wait(), HANG_S)
    await wait_until_async(lambda: _measured()[0] > count, "the measurement after the run has returned")
    assert _measured() == (count + 1, total + 21.0)


async def test_an_api_server_that_is_down_is_a_line_and_a_longer_wait_each_time(run, caplog):
    """No traceback for each of ten thousand services, and no stampede when it is back."""
    queue, seen, done = WorkQueue(Limits(0.0, 0.01, 1.0)), [], asyncio.Event()

    async def work(_key):
        seen.append(1)
        if len(seen) == 3:
            done.set()
            return
        raise Unavailable("the API server does not answer: TimeoutError")

    run(queue, work)
    queue.add("a")
    await asyncio.wait_for(done.wait(), HANG_S)
    lines = [record for record in caplog.records if "does not answer" in record.getMessage()]
    assert len(lines) == 2
    assert all(record.exc_info is None for record in lines)


async def test_the_oldest_key_is_as_old_as_it_is_due():
    """Only while somebody works: a stand-by's queue is not late."""
    now = 100.0
    queue = WorkQueue(LIMITS, clock=lambda: now, workers=0)
    queue.add("a")
    queue.add("later", after_s=50)
    now = 130.0
    assert queue.oldest_s() == 0.0
    queue._working = 1
    assert queue.oldest_s() == 30.0


async def test_the_wait_for_a_worker_begins_when_the_key_is_due_and_somebody_works():
    """What was due on a stand-by has waited for nobody; the one worker hangs on the first key for 7 s."""
    now, done = 100.0, asyncio.Event()
    queue, (count, total) = WorkQueue(FAST, clock=lambda: now, workers=1), _measured(metrics.QUEUE_WAIT_SECONDS)
    queue.add("due long ago")
    now = 500.0

    async def work(key):
        nonlocal now
        if key == "second":
            done.set()
            return
        queue.add("second")
        now += 7.0

    task = asyncio.create_task(queue.run(work))
    await asyncio.wait_for(done.wait(), HANG_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert _measured(metrics.QUEUE_WAIT_SECONDS) == (count + 2, total + 7.0)


async def test_stopped_workers_leave_the_work_to_the_next(run):
    """A replica that loses the Lease in the middle of a run does it again when it has it back."""
    queue, begun = WorkQueue(FAST, workers=1), asyncio.Event()

    async def hangs(_key):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(queue.run(hangs))
    queue.add("a")
    await asyncio.wait_for(begun.wait(), HANG_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    done = asyncio.Event()

    async def works(_key):
        done.set()

    run(queue, works)
    await asyncio.wait_for(done.wait(), HANG_S)


class CountedTime(float):
    """A point in time that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other):
        CountedTime.comparisons += 1
        return float(self) < float(other)

    def __gt__(self, other):
        CountedTime.comparisons += 1
        return float(self) > float(other)

    def __eq__(self, other):
        CountedTime.comparisons += 1
        return float(self) == float(other)

    __hash__ = float.__hash__


def test_ten_thousand_keys_are_no_burden(monkeypatch):
    """Each step is logarithmic: some 14 levels of a heap, not ten thousand comparisons."""
    monkeypatch.setattr(CountedTime, "comparisons", 0)
    schedule = Schedule(LIMITS, share=10_000)
    for number in range(10_000):
        schedule.add(number, CountedTime(number % 7))
    taken = [schedule.take(9.0) for _ in range(10_000)]
    assert len(set(taken)) == 10_000
    assert 10_000 < CountedTime.comparisons < 100 * 10_000


def test_starts_are_not_kept_for_ever():
    """Ten thousand services that came and went leave next to nothing."""
    schedule = Schedule(LIMITS)
    for number in range(10_000):
        schedule.add(number, float(number))
        schedule.take(float(number))
        schedule.succeed(number, float(number), None)
    assert len(schedule._started) <= 1001


async def test_each_failure_is_logged_and_its_traceback_once(run, caplog):
    """Also when the telling fails; the next key goes on."""
    queue = WorkQueue(Limits(interval_s=0, backoff_first_s=0.001, backoff_max_s=0.001), workers=1)
    told, done, good = [], asyncio.Event(), asyncio.Event()

    async def work(key):
        if key == "good":
            good.set()
            return
        raise RecursionError("too deep")

    async def failed(key, error):
        told.append((key, str(error)))
        if len(told) == 3:
            done.set()
        if len(told) == 1:
            raise ValueError("nor can it be told")

    task = asyncio.create_task(queue.run(work, failed))
    queue.add("bad")
    queue.add("good")
    await asyncio.wait_for(asyncio.gather(done.wait(), good.wait()), HANG_S)
    task.cancel()
    assert set(told) == {("bad", "too deep")}
    rows = [row for row in caplog.records if "reconcile failed" in row.message]
    assert [bool(row.exc_info) for row in rows][:3] == [True, False, False]


async def test_an_event_of_a_key_whose_run_has_not_begun_changes_nothing():
    """Not so once the run has begun, nor while the key only waits for a poll or a back-off."""
    now = 0.0
    queue = WorkQueue(LIMITS, clock=lambda: now)
    queue._working = 1
    queue.add("a", 30.0)
    assert not queue.asked("a")
    queue.event("a")
    assert queue.asked("a")
    queue._asked.pop(queue._schedule.take(now))
    assert not queue.asked("a")
    queue.event("a")
    assert queue.asked("a")


def test_a_replica_on_stand_by_asks_for_each_key_once():
    queue = WorkQueue(LIMITS, clock=lambda: 0.0)
    assert not queue.asked("a")
    queue.event("a")
    assert queue.asked("a")
