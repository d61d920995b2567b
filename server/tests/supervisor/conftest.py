"""Engines of a test that failed end with it: asyncio waits for every child when its loop closes."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from windlass.child.process import Child

WAIT = """
import os, time
def wait(path):
    while not os.path.exists(path):
        time.sleep(0.01)
"""
"""The beginning of an engine's program that waits until its test has made a file."""


@pytest.fixture(autouse=True)
async def no_engine_is_left() -> AsyncIterator[None]:
    """Asynchronous, so that it ends before the test's event loop does."""
    yield
    for pid in tuple(Child.waited_for):
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        Child.waited_for.discard(pid)
