"""Group commit: what waits shares a commit, nobody is answered before it, and a failed one fails all of its own."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from windlass_license.errors import StandByError, StoreError
from windlass_license.storage.commits import GroupCommit
from windlass_testbed.waiting import HANG_S, wait_until_async


async def test_requests_that_wait_share_the_next_commit() -> None:
    """One commit is under way; the twenty requests that come meanwhile take one more, not twenty."""
    free, sizes = threading.Event(), list[int]()

    def commit(jobs: Sequence[Any]) -> list[Any]:
        sizes.append(len(jobs))
        free.wait(HANG_S)
        return [job(None) for job in jobs]

    commits = GroupCommit(commit)
    first = asyncio.create_task(commits.run(lambda _: "first"))
    await wait_until_async(lambda: sizes)
    rest = [asyncio.create_task(commits.run(lambda _, n=n: n)) for n in range(20)]
    await wait_until_async(lambda: commits._queue.qsize() == len(rest))
    assert not first.done()
    free.set()
    assert await asyncio.gather(first, *rest) == ["first", *range(20)]
    assert sizes == [1, 20]
    commits.close()


async def test_a_failed_commit_answers_nobody() -> None:
    """Every request of the batch gets the error, and the next batch is not harmed."""
    fail = True

    def commit(jobs: Sequence[Any]) -> list[Any]:
        if fail:
            raise StoreError("disk full")
        return [None for _ in jobs]

    commits = GroupCommit(commit)
    outcomes = await asyncio.gather(*(commits.run(lambda _: None) for _ in range(3)), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["disk full"] * 3
    fail = False
    assert await commits.run(lambda _: None) is None
    commits.close()


async def test_a_client_that_went_away_harms_nobody() -> None:
    """A cancelled request is committed all the same; the others are answered."""
    free, sizes = threading.Event(), list[int]()

    def commit(jobs: Sequence[Any]) -> list[Any]:
        sizes.append(len(jobs))
        free.wait(HANG_S)
        return [job(None) for job in jobs]

    commits = GroupCommit(commit)
    gone, stays = (asyncio.create_task(commits.run(lambda _: 1)) for _ in range(2))
    await wait_until_async(lambda: sizes and sizes[0] + commits._queue.qsize() == 2)
    gone.cancel()
    free.set()
    assert await stays == 1
    commits.close()


async def test_after_closing_nothing_is_accepted() -> None:
    """What was accepted is finished; what comes later is told to ask again."""
    done = []
    commits = GroupCommit(lambda jobs: [done.append(job) for job in jobs])
    await commits.run(lambda _: None)
    commits.close()
    assert len(done) == 1
    with pytest.raises(StandByError, match="stopping"):
        await commits.run(lambda _: None)
