"""What members say to each other, and who is there: pure."""

from dataclasses import replace

import pytest
from windlass.errors import EngineError, MemberLostError
from windlass.group import words
from windlass.group.membership import last_word
from windlass.group.plan import GroupPlan
from windlass.group.roll import Roll, named
from windlass.group.words import Word

PLAN = GroupPlan("h", 4, 0, "native")


@pytest.mark.parametrize("kind", words.KINDS)
def test_a_word_comes_as_it_went(kind: str) -> None:
    """One line each."""
    word = Word(kind, 3, 4, "ray", 'it ended:\n"no"')
    line = words.encode(word)
    assert line.count(b"\n") == 1
    assert word == words.decode(line)


def test_a_long_message_is_cut() -> None:
    """A line stays within what the other side takes, whatever an engine says."""
    line = words.encode(Word(words.END, message="€" * 90_000))
    assert len(line) < words.LINE_BYTES_MAX
    assert words.decode(line) == Word(words.END, message="€" * words.MESSAGE_CHARACTERS)


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"\xff\xfe\n", b"[]\n", b'{"kind": "sing"}\n', b'{"kind": []}\n', b"7\n", b"{"]
)
def test_what_is_no_word(line: bytes) -> None:
    """Anybody may come to an open port."""
    assert words.decode(line) is None


@pytest.mark.parametrize("said", ["1", None, True, 1.5, [1]])
def test_a_member_is_a_whole_number(said: object) -> None:
    """Anything else is nobody, whom the head refuses."""
    import json

    word = words.decode(json.dumps({"kind": "hello", "member": said, "version": 1}).encode())
    assert word is not None
    assert word.member == -1


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (Word(words.HELLO, 1, 4, "native"), ""),
        (Word(words.HELLO, 1, 4, "native", version=2), "run the same image on all members"),
        (Word(words.READY, 1, 4, "native"), "run the same image on all members"),
        (Word(words.HELLO, 0, 4, "native"), "member 0 is no follower of a group of 4; number the members 0 … 3"),
        (Word(words.HELLO, 4, 4, "native"), "member 4 is no follower"),
        (Word(words.HELLO, 1, 2, "native"), "member 1 was told of 2 by native, the head of 4 members by native"),
        (Word(words.HELLO, 1, 4, "ray"), "give all the same variables"),
    ],
)
def test_who_is_refused(word: Word, said: str) -> None:
    """A member of another group, or of another image."""
    refusal = Roll(PLAN).refusal(word)
    assert said in refusal
    assert bool(said) == bool(refusal)


@pytest.mark.parametrize(
    ("revision", "said"), [("a", ""), ("b", "is of revision a, this member of b"), ("", "of none")]
)
def test_who_comes_too_early_or_too_late(revision: str, said: str) -> None:
    """A member of another revision is not refused: one of the two is about to be replaced."""
    roll = Roll(replace(PLAN, revision="a"))
    hello = Word(words.HELLO, 1, 4, "native", revision=revision)
    assert roll.refusal(hello) == ""
    assert said in roll.later(hello)
    assert bool(said) == bool(roll.later(hello))


def test_the_roll() -> None:
    """Members come in any order, go, and come again."""
    roll = Roll(PLAN)
    assert (roll.missing, roll.unready) == ((1, 2, 3), (1, 2, 3))
    for member in (3, 1, 2):
        roll.come(member)
    roll.ready.add(1)
    assert (roll.missing, roll.unready) == ((), (2, 3))
    roll.gone(1)
    assert (roll.missing, roll.unready) == ((1,), (1, 2, 3))


def test_names() -> None:
    """As a sentence has them."""
    assert named((1,), 2) == "member 1 of 2"
    assert named((1, 2, 3), 4) == "members 1, 2 and 3 of 4"


def test_last_words_name_who_failed() -> None:
    """A member that ends because of another names that one, so that all exit with the same code."""
    follower = GroupPlan("h", 4, 2, "native")
    assert Word(words.END, 2, message="no memory") == last_word(follower, EngineError("no memory", 1))
    assert Word(words.END, 2, message="it was told to stop") == last_word(follower, None)
    lost = MemberLostError("member 3 of 4 closed its connection", 3)
    assert (lost.exit_code, last_word(PLAN, lost)) == (103, Word(words.END, 3, message=str(lost)))
    assert MemberLostError("far", 300).exit_code == 127
