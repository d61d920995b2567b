"""Two processes of `windlass run` with a scripted engine: they serve as one, end as one, and say who failed."""

from collections.abc import Callable

import pytest

from .conftest import Member

Start = Callable[..., Member]


@pytest.fixture
def pair(member: Start) -> tuple[Member, Member]:
    """Head and follower, serving."""
    follower = member(1)
    follower.until("group")
    assert not follower.is_ready()
    head = member(0)
    head.until("serving")
    follower.until("serving")
    return head, follower


def test_a_group_that_serves(pair: tuple[Member, Member]) -> None:
    """The follower serves no API; told to stop, the head ends well, and the follower says why it goes."""
    head, follower = pair
    shown = follower.facts()
    assert shown["engine"]["argv"][-1] == "--headless"
    assert shown["group"] == {
        "head": "127.0.0.1", "size": 2, "index": 1, "engine": "native", "waitingFor": [],
        "message": shown["group"]["message"],
    }  # fmt: skip
    assert [row["phase"] for row in shown["phases"]] == ["model", "license", "group", "engine"]
    assert head.facts()["engine"]["argv"][-8:] == [
        "--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1", "--master-port", "29501",
    ]  # fmt: skip
    assert follower.is_ready()
    head.process.terminate()
    assert head.end()[0] == 0
    code, said = follower.end()
    assert (code, "the head 127.0.0.1 ended: it was told to stop" in said) == (100, True)
    message = "the head 127.0.0.1 ended: it was told to stop"
    assert follower.last_words() == {"reason": "MemberLost", "message": message, "exitCode": 100, "members": [0]}


def test_the_followers_engine_dies(pair: tuple[Member, Member]) -> None:
    """The follower's own code says what; the head's says who."""
    head, follower = pair
    follower.kill_engine()
    code, said = follower.end()
    reason = "the engine was ended by SIGKILL; the container's memory is too small"
    assert (code, reason in said) == (137, True)
    code, said = head.end()
    assert (code, f"member 1 of 2 ended: {reason}" in said) == (101, True)
    assert head.last_words()["members"] == [1]


def test_the_heads_engine_dies(pair: tuple[Member, Member]) -> None:
    """And the other way round."""
    head, follower = pair
    head.kill_engine()
    assert head.end()[0] == 137
    code, said = follower.end()
    assert (code, "the head 127.0.0.1 ended: the engine was ended by SIGKILL" in said) == (100, True)


def test_a_follower_that_vanishes(pair: tuple[Member, Member]) -> None:
    """Its connection is the sign; the head ends its engine, which does not notice by itself."""
    head, follower = pair
    follower.process.kill()
    code, said = head.end()
    assert (code, "member 1 of 2 closed its connection without a word" in said) == (101, True)
    follower.kill_engine()  # what Kubernetes does with the rest of a container


@pytest.mark.parametrize(
    ("index", "failed", "said"),
    [
        (0, [1], "member 1 of 2 did not come in 1 s; see their pods, or raise WINDLASS_GROUP_TIMEOUT"),
        (1, [0], "did not answer in 1 s: "),
    ],
)
def test_one_that_is_alone(member: Start, index: int, failed: list[int], said: str) -> None:
    """It waits as long as it is told, and names who is missing."""
    lonely = member(index, WINDLASS_GROUP_TIMEOUT="1")
    code, told = lonely.end()
    assert (code, said in told) == (6, True)
    words = lonely.last_words()
    assert (words["reason"], words["members"]) == ("GroupIncomplete", failed)


def test_a_wrong_variable(member: Start) -> None:
    """Before anything starts."""
    code, said = member(5).end()
    assert code == 2
    assert "variable WINDLASS_GROUP_INDEX makes this member 5, and the group has 2 members" in said


def test_an_image_without_ray(member: Start) -> None:
    """Told before anything starts; on GPUs Ray is what a group takes by itself."""
    code, said = member(0, WINDLASS_ENGINE="cuda").end()
    assert (code, "this image has no Ray; set WINDLASS_GROUP_ENGINE to native" in said) == (2, True)
