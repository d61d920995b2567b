"""What members say to each other, and who is there: pure."""

from dataclasses import replace

import pytest
from windlass.errors import EngineError, MemberLostError
from windlass.group import messages
from windlass.group.membership import last_message
from windlass.group.messages import GroupMessage
from windlass.group.plan import GroupPlan
from windlass.group.roster import Roster, named

PLAN = GroupPlan("h", 4, 0, "native")


@pytest.mark.parametrize("kind", messages.KINDS)
def test_a_message_arrives_as_it_was_sent(kind: str) -> None:
    """One line each."""
    message = GroupMessage(kind, 3, 4, "ray", 'it ended:\n"no"')
    line = messages.encode(message)
    assert line.count(b"\n") == 1
    assert message == messages.decode(line)


def test_a_long_message_is_cut() -> None:
    """A line stays within what the other side takes, whatever an engine says."""
    line = messages.encode(GroupMessage(messages.END, text="€" * 90_000))
    assert len(line) < messages.LINE_BYTES_MAX
    assert messages.decode(line) == GroupMessage(messages.END, text="€" * messages.TEXT_CHARACTERS_MAX)


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"\xff\xfe\n", b"[]\n", b'{"kind": "sing"}\n', b'{"kind": []}\n', b"7\n", b"{"]
)
def test_what_is_no_message(line: bytes) -> None:
    """Anybody may come to an open port."""
    assert messages.decode(line) is None


@pytest.mark.parametrize("said", ["1", None, True, 1.5, [1]])
def test_a_member_is_a_whole_number(said: object) -> None:
    """Anything else is nobody, whom the head refuses."""
    import json

    message = messages.decode(json.dumps({"kind": "hello", "member": said, "version": 1}).encode())
    assert message is not None
    assert message.member == -1


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (GroupMessage(messages.HELLO, 1, 4, "native"), ""),
        (GroupMessage(messages.HELLO, 1, 4, "native", version=2), "run the same image on all members"),
        (GroupMessage(messages.READY, 1, 4, "native"), "run the same image on all members"),
        (
            GroupMessage(messages.HELLO, 0, 4, "native"),
            "member 0 is no follower of a group of 4; number the members 0 … 3",
        ),
        (GroupMessage(messages.HELLO, 4, 4, "native"), "member 4 is no follower"),
        (
            GroupMessage(messages.HELLO, 1, 2, "native"),
            "member 1 has variables for 2 by native, the head for 4 members by native",
        ),
        (GroupMessage(messages.HELLO, 1, 4, "ray"), "give all the same"),
    ],
)
def test_who_is_refused(message: GroupMessage, said: str) -> None:
    """A member of another group, or of another image."""
    refusal = Roster(PLAN).refusal(message)
    assert said in refusal
    assert bool(said) == bool(refusal)


@pytest.mark.parametrize(
    ("revision", "said"), [("a", ""), ("b", "is of revision a, this member of b"), ("", "of none")]
)
def test_who_comes_too_early_or_too_late(revision: str, said: str) -> None:
    """A member of another revision is not refused: one of the two is about to be replaced."""
    roster = Roster(replace(PLAN, revision="a"))
    hello = GroupMessage(messages.HELLO, 1, 4, "native", revision=revision)
    assert roster.refusal(hello) == ""
    assert said in roster.later(hello)
    assert bool(said) == bool(roster.later(hello))


def test_the_roster() -> None:
    """Members come in any order, go, and come again."""
    roster = Roster(PLAN)
    assert (roster.missing, roster.unready) == ((1, 2, 3), (1, 2, 3))
    for member in (3, 1, 2):
        roster.come(member)
    roster.ready.add(1)
    assert (roster.missing, roster.unready) == ((), (2, 3))
    roster.gone(1)
    assert (roster.missing, roster.unready) == ((1,), (1, 2, 3))


def test_names() -> None:
    """As a sentence has them."""
    assert named((1,), 2) == "member 1 of 2"
    assert named((1, 2, 3), 4) == "members 1, 2 and 3 of 4"


def test_last_words_name_who_failed() -> None:
    """A member that ends because of another names that one, so that all exit with the same code."""
    follower = GroupPlan("h", 4, 2, "native")
    assert GroupMessage(messages.END, 2, text="no memory") == last_message(follower, EngineError("no memory", 1))
    assert GroupMessage(messages.END, 2, text="it was told to stop") == last_message(follower, None)
    lost = MemberLostError("member 3 of 4 closed its connection", 3)
    assert (lost.exit_code, last_message(PLAN, lost)) == (103, GroupMessage(messages.END, 3, text=str(lost)))
    assert MemberLostError("far", 300).exit_code == 127
