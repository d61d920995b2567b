"""The queue: one run at a time a key, any number of asks are one run, failures back off."""

from __future__ import annotations

import asyncio

import pytest
from windlass_operator.errors import Retry
from windlass_operator.queue import Limits, Schedule, WorkQueue

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
    await asyncio.wait_for(done.wait(), 5)
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
    await asyncio.wait_for(done.wait(), 5)
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
    await asyncio.wait_for(done.wait(), 5)
    assert seen == ["a", "a", "a"]


async def test_one_key_is_never_worked_on_twice_at_once(run):
    queue, running, most = WorkQueue(FAST, workers=4), 0, 0
    ended = asyncio.Event()

    async def work(_key):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        ended.set()

    run(queue, work)
    for _ in range(20):
        queue.add("a")
        await asyncio.sleep(0.002)
    await asyncio.wait_for(ended.wait(), 5)
    assert most == 1
