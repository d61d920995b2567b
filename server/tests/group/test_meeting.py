"""Head and followers over real connections: who waits for whom, and what each is told when one goes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from windlass.errors import EngineError, GroupIncompleteError, MemberLostError, UsageError, WindlassError
from windlass.group.follower import Follower
from windlass.group.head import MOST_STRANGERS, Head
from windlass.group.membership import GroupFacts, Membership
from windlass.group.messages import HELLO, GroupMessage, encode
from windlass.group.plan import GroupPlan
from windlass_testbed.ports import free_port
from windlass_testbed.simulated_time import elapse
from windlass_testbed.waiting import wait_until_async

pytestmark = pytest.mark.simulated_time
HOST = "127.0.0.1"


@pytest.fixture
def plan() -> GroupPlan:
    port = free_port()
    return GroupPlan(HOST, 3, 0, "native", timeout_s=600, lost_after_s=30, port=port)


class Member:
    """A member whose `run` goes on, as the supervisor has it, and what it reported."""

    def __init__(self, plan: GroupPlan) -> None:
        self.said: list[GroupFacts] = []
        self.part: Membership = (
            Head(plan, self.said.append, host=HOST) if plan.is_head else Follower(plan, self.said.append)
        )
        self.running = asyncio.create_task(self.part.run())
        self.ready = asyncio.create_task(self.part.ready())

    async def error(self) -> WindlassError:
        """What ended `run`."""
        await asyncio.wait({self.running})
        error = self.running.exception()
        assert isinstance(error, WindlassError)
        return error

    async def end(self, error: WindlassError | None = None) -> None:
        await self.part.part(error)
        await _cancel(self.running, self.ready)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def members(plan: GroupPlan, *indices: int) -> AsyncIterator[list[Member]]:
    found = [Member(replace(plan, index=index)) for index in indices]
    try:
        yield found
    finally:
        for member in found:
            await member.end()


async def test_all_start_together(plan: GroupPlan) -> None:
    """Followers may come first; nobody starts before all are ready; then all hear that the group serves."""
    async with members(plan, 1, 2) as (first, second):
        await wait_until_async(lambda: "waits for the head" in first.said[-1].message if first.said else False)
        async with members(plan, 0) as (head,):
            for member in (head, first, second):
                await member.ready
            waits = asyncio.gather(first.part.served(), second.part.served())
            await head.part.serving()
            await waits
            assert head.said[-1] == GroupFacts(plan, (), "all members are there")


async def test_members_of_two_revisions_never_make_a_group(plan: GroupPlan) -> None:
    """One of another revision waits outside, without an error, until a head of its own is there."""
    old = replace(plan, size=2, revision="old")
    new = replace(old, revision="new", index=1)
    async with members(new, 1) as (early,):
        async with members(old, 0) as (old_head,):
            await wait_until_async(
                lambda: bool(early.said) and "is of revision old, this member of new" in early.said[-1].message
            )
            assert not old_head.ready.done()
            assert not early.running.done()
        async with members(replace(new, index=0), 0) as (head,):
            await head.ready
            await early.ready


async def test_one_that_is_not_ready_holds_all(plan: GroupPlan) -> None:
    """A follower that waits for its license is there, and the time-out does not count."""
    short = replace(plan, size=2, timeout_s=20)  # clock: simulated
    async with members(short, 0) as (head,):
        late = Follower(replace(short, index=1), lambda _: None)
        running = asyncio.create_task(late.run())
        await wait_until_async(lambda: bool(head.said) and "license of member 1 of 2" in head.said[-1].message)
        await elapse(3600)
        assert not head.ready.done()
        await late.ready()
        await head.ready
        await late.part(None)
        await _cancel(running)


async def test_the_head_names_who_is_missing(plan: GroupPlan) -> None:
    """After the time-out: which members, and the exit code of a group that is not whole."""
    async with members(replace(plan, timeout_s=40), 0, 1) as (head, _):
        with pytest.raises(
            GroupIncompleteError, match=r"member 2 of 3 did not come in 40 s.*WINDLASS_GROUP_TIMEOUT"
        ) as error:
            await head.ready
        assert (error.value.members, error.value.exit_code) == ((2,), 6)
        assert head.said[-1].waiting_for == (2,)


async def test_a_follower_without_a_head(plan: GroupPlan) -> None:
    """After the time-out: where it looked, and why it was not there."""
    async with members(replace(plan, timeout_s=20), 1) as (follower,):  # clock: simulated
        error = await follower.error()
        assert isinstance(error, GroupIncompleteError)
        assert error.members == (0,)
        assert f"the head {HOST}:{plan.port} did not answer in 20 s: " in str(error)


async def test_before_go_members_may_come_again(plan: GroupPlan) -> None:
    """A member that ends early is waited for again; a head that is started again, too."""
    async with members(plan, 0) as (head,):
        async with members(plan, 1):
            await wait_until_async(lambda: bool(head.said) and head.said[-1].waiting_for == (2,))
        await wait_until_async(lambda: head.said[-1].waiting_for == (1, 2))
    async with members(plan, 1, 2) as followers, members(plan, 0) as (head,):
        await head.ready
        for follower in followers:
            await follower.ready


async def _together(plan: GroupPlan, stack: contextlib.AsyncExitStack) -> list[Member]:
    found = await stack.enter_async_context(members(plan, 0, 1, 2))
    for member in found:
        await member.ready
    return found


async def test_a_follower_that_ends_takes_all_with_it(plan: GroupPlan) -> None:
    """Head and other followers exit with the number of the one that failed, and with its reason."""
    async with contextlib.AsyncExitStack() as stack:
        head, failing, other = await _together(plan, stack)
        await failing.end(EngineError("the engine was ended by SIGKILL", 137))
        error = await head.error()
        await head.end(error)
        errors = [error, await other.error()]
    assert [error.exit_code for error in errors] == [101, 101]
    assert {str(error) for error in errors} == {"member 1 of 3 ended: the engine was ended by SIGKILL"}


@pytest.mark.parametrize(
    ("error", "said"),
    [(EngineError("no memory", 1), "the head 127.0.0.1 ended: no memory"), (None, "ended: it was told to stop")],
)
async def test_the_head_that_ends_takes_all_with_it(plan: GroupPlan, error: WindlassError | None, said: str) -> None:
    """Followers exit with 100, the number of the head."""
    async with contextlib.AsyncExitStack() as stack:
        head, *followers = await _together(plan, stack)
        await head.end(error)
        for follower in followers:
            lost = await follower.error()
            assert isinstance(lost, MemberLostError)
            assert (lost.exit_code, said in str(lost)) == (100, True)


async def test_a_member_that_dies_says_nothing(plan: GroupPlan) -> None:
    """Its connection ends, and that is enough."""
    async with contextlib.AsyncExitStack() as stack:
        head, first, _ = await _together(plan, stack)
        await _cancel(first.running)
        assert str(await head.error()) == "member 1 of 3 closed its connection without a word"


async def test_a_member_that_is_started_again_ends_the_group(plan: GroupPlan) -> None:
    """Its engine is another one than the group's; the old connection need not have ended for that."""
    async with contextlib.AsyncExitStack() as stack:
        head, *_ = await _together(plan, stack)
        async with members(plan, 2):
            assert str(await head.error()) == "member 2 of 3 was started again"


async def test_silence_is_loss(plan: GroupPlan) -> None:
    """A machine that is cut off closes no connection."""
    short = replace(plan, size=2, lost_after_s=12)
    async with members(short, 0) as (head,):
        await elapse(1)
        _, writer = await asyncio.open_connection(HOST, plan.port)
        writer.write(encode(GroupMessage(HELLO, 1, 2, "native")) + encode(GroupMessage("ready")))
        await head.ready
        assert str(await head.error()) == "member 1 of 2 was silent for 12 s"
        writer.close()


async def test_beats_keep_a_quiet_group_together(plan: GroupPlan) -> None:
    """Members that have nothing to say are there."""
    async with members(replace(plan, size=2, lost_after_s=6), 0, 1) as found:
        for member in found:
            await member.ready
        await elapse(600)
        assert not any(member.running.done() for member in found)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 100_000])
async def test_strangers_are_let_go(plan: GroupPlan, sent: bytes) -> None:
    """A probe of the port, or another protocol, disturbs nobody."""
    async with contextlib.AsyncExitStack() as stack:
        found = await _together(plan, stack)
        reader, writer = await asyncio.open_connection(HOST, plan.port)
        with contextlib.suppress(OSError):
            writer.write(sent)
            writer.write_eof()
            await reader.read()
        writer.close()
        assert not any(member.running.done() for member in found)


async def test_strangers_keep_no_member_out(plan: GroupPlan) -> None:
    """Silent connections go when there are too many."""
    async with members(plan, 0) as (head,), AsyncExitStack() as stack:
        await wait_until_async(lambda: head.said, "the head listens")
        silent = [await asyncio.open_connection(HOST, plan.port) for _ in range(MOST_STRANGERS + 1)]
        for _, writer in silent:
            stack.callback(writer.close)
        assert isinstance(head.part, Head)
        await silent[0][0].read()  # the head's heartbeats, and the end of the connection
        assert len(head.part._meetings) <= MOST_STRANGERS + 1
        async with members(plan, 1, 2) as others:
            for member in (head, *others):
                await member.ready


async def test_a_member_of_another_group_is_refused(plan: GroupPlan) -> None:
    """Its operator is told what does not fit, with the exit code of a wrong variable."""
    async with members(plan, 0), members(replace(plan, size=4), 3) as (stranger,):
        error = await stranger.error()
    assert isinstance(error, UsageError)
    assert "refuses this member: member 3 is no follower of a group of 3" in str(error)


async def test_a_taken_port(plan: GroupPlan) -> None:
    """The head says which variable moves it."""
    async with members(plan, 0) as (first,):
        await elapse(1)
        assert first.said
        async with members(plan, 0) as (second,):
            error = await second.error()
    assert isinstance(error, UsageError)
    assert f"group port {plan.port} cannot be opened" in str(error)
    assert str(error).endswith("set WINDLASS_GROUP_PORT")
