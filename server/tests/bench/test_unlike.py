"""A tokenizer that makes all prompts alike is found; one that joins some tokens is not."""

from collections.abc import Sequence

import pytest
from windlass.bench.serving.unlike import SHARE_MIN, share

USABLE = range(10, 1010)


def decode(tokens: Sequence[int]) -> str:
    return " ".join(f"w{token}" for token in tokens)


@pytest.mark.parametrize(
    ("encode", "is_fine"),
    [
        (lambda text: [int(word[1:]) for word in text.split()], True),
        (lambda text: [int(word[1:]) // 2 for word in text.split()], True),  # pairs join
        (lambda text: [0 for _ in text.split()], False),  # every word is the unknown one
        (lambda text: [len(word) for word in text.split()], False),
        (lambda _: [], False),
    ],
)
def test_share(encode, is_fine):  # type: ignore[no-untyped-def]
    """By the unlike tokens that come back."""
    assert (share(decode, encode, USABLE) >= SHARE_MIN) is is_fine


def test_a_vocabulary_smaller_than_the_draw():
    """All of it is drawn."""
    assert share(decode, lambda text: [int(word[1:]) for word in text.split()], range(9)) == 1.0
