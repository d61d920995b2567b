"""Waiting for an event: what was found comes back, and a hang ends with the event's name."""

import asyncio

import pytest
from windlass_testbed.waiting import wait_until, wait_until_async


def test_what_was_found_comes_back() -> None:
    found = iter([None, 0, "ready"])
    assert wait_until(lambda: next(found)) == "ready"


def test_a_hang_ends_with_the_events_name() -> None:
    with pytest.raises(AssertionError, match="the pod's start did not happen within 0 s"):
        wait_until(lambda: False, "the pod's start", hang_s=0)  # clock: the bound itself is tested


async def test_the_event_loop_runs_meanwhile() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_soon(done.set)
    assert await wait_until_async(done.is_set)


async def test_a_hang_of_the_loop_ends_too() -> None:
    with pytest.raises(AssertionError, match="the pod's start did not happen within 0 s"):
        await wait_until_async(lambda: False, "the pod's start", hang_s=0)  # clock: the bound itself is tested
