"""The text of an answer as its tokens come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass_deepspeed.progress import Piece, Progress
from windlass_deepspeed.sampling import Sampling

EOS = 256


def bytes_of(tokens: list[int]) -> str:
    """A tokenizer whose tokens are bytes: characters are finished by several of them."""
    return bytes(token for token in tokens if token != EOS).decode(errors="replace")


def pieces(tokens: list[int], **options: object) -> list[Piece]:
    progress = Progress(bytes_of, Sampling(**({"max_tokens": 10_000} | options)), frozenset({EOS}))
    said = []
    for token in tokens:
        said.append(progress.feed(token))
        if said[-1].finish_reason:
            break
    return said


@given(text=st.text(max_size=40), stops=st.lists(st.text(min_size=1, max_size=4), max_size=3), cut=st.integers(0, 40))
def test_pieces_are_the_text_before_the_first_stop(text: str, stops: list[str], cut: int) -> None:
    """Joined pieces are exactly the decoded text up to the first stop word, however it falls on the tokens."""
    stops = [*stops, text[cut : cut + 2]] if text[cut : cut + 2] else stops
    said = pieces([*text.encode(), EOS], stop=tuple(stops))
    joined = "".join(piece.text for piece in said)
    # A word stops the answer at the character that completes it, so the first to be complete counts.
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    seen = text[: min(ends, default=len(text))]
    first = min((seen.find(stop) for stop in stops if stop in seen), default=len(text))
    assert text[:first] == joined
    assert said[-1].finish_reason == "stop"
    assert all(piece.finish_reason is None for piece in said[:-1])


@given(text=st.text(min_size=1, max_size=40), limit=st.integers(1, 60))
def test_length(text: str, limit: int) -> None:
    """The limit counts tokens; a character that it cuts is shown as such and not lost."""
    tokens = list(text.encode())
    said = pieces([*tokens, EOS], max_tokens=limit)
    assert "".join(piece.text for piece in said) == bytes_of(tokens[:limit])
    assert said[-1].finish_reason == ("length" if limit <= len(tokens) else "stop")
    assert said[-1].tokens == min(limit, len(tokens) + 1)


def test_a_stop_word_is_never_seen_in_part() -> None:
    """The beginning of a stop word is held until it is none."""
    assert [piece.text for piece in pieces(list(b"abSTay"), stop=("STOP",))] == ["a", "b", "", "", "STa", "y"]


def test_ignore_eos_goes_on() -> None:
    """The end token is said like any other, until the limit."""
    said = pieces([97, EOS, 98, EOS], ignore_eos=True, max_tokens=3)
    assert ("".join(piece.text for piece in said), said[-1].finish_reason) == ("ab", "length")


def test_letters_are_streamed_one_by_one() -> None:
    """Without stop words nothing is held back but bytes of an unfinished character."""
    assert [piece.text for piece in pieces(list("aé!".encode()))] == ["a", "", "é", "!"]


@pytest.mark.parametrize("count", [2000])
def test_a_long_answer_costs_no_more_a_token(count: int) -> None:
    """The decoder is given the newest tokens only."""
    longest = 0

    def decode(tokens: list[int]) -> str:
        nonlocal longest
        longest = max(longest, len(tokens))
        return bytes_of(tokens)

    progress = Progress(decode, Sampling(max_tokens=count), frozenset({EOS}))
    for _ in range(count):
        progress.feed(97)
    assert longest <= 2
