"""Lines wait within a number of bytes; none is lost, and the end comes after the last."""

from __future__ import annotations

import asyncio

import pytest
from windlass_client.line_queue import BATCH_MAX, HELD_MAX, LINE_BYTES, LineQueue
from windlass_client.values import LogLine
from windlass_testbed.waiting import HANG_S, wait_until_async


def a_line(text: str) -> LogLine:
    return LogLine("pod", "server", text)


@pytest.mark.parametrize("letter", ["a", "\u4e00", "\U0001f600"], ids=["1 byte", "2 bytes", "4 bytes"])
async def test_readers_wait_once_enough_bytes_are_held(letter):
    """Whatever the width of the text, and however many readers there are; one line goes over at most."""
    queue, size = LineQueue(), 16 << 10
    readers = [asyncio.create_task(queue.put(a_line(letter * size))) for _ in range(1000)]
    await asyncio.sleep(0)  # each reader has its turn
    assert HELD_MAX <= queue.held < HELD_MAX + 4 * size + 1000
    taken = 0
    while batch := await asyncio.wait_for(queue.take(), HANG_S):
        assert len(batch) == 1 or sum(len(line.text) for line in batch) <= BATCH_MAX
        taken += len(batch)
        await asyncio.sleep(0)
        if taken == len(readers):
            queue.end()
    assert (taken, queue.held) == (1000, 0)
    await asyncio.gather(*readers)


async def test_short_lines_count_too():
    queue = LineQueue()
    reader = asyncio.create_task(_put(queue, HELD_MAX // LINE_BYTES + 1))
    await wait_until_async(lambda: queue.held >= HELD_MAX)
    assert not reader.done()
    reader.cancel()


async def _put(queue: LineQueue, number: int) -> None:
    for _ in range(number):
        await queue.put(a_line(""))
