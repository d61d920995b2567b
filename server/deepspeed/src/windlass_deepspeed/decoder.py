"""The seam between the batcher and the engine: what a batch of rows can do, and what a tokenizer can.

`engine/` implements both with torch; tests of the batcher and the API implement them with arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass_deepspeed.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Start:
    """A request that becomes a row of the batch."""

    key: int
    prompt: tuple[int, ...]
    sampling: Sampling


class Decoder(Protocol):
    """A batch of rows. One thread calls it."""

    def join(self, starts: Sequence[Start]) -> Mapping[int, int]:
        """Read the prompts, add their rows, and return the first token of each."""

    def step(self) -> Mapping[int, int]:
        """The next token of every row."""

    def leave(self, keys: Collection[int]) -> None:
        """Give the rows' memory back."""


class Tokenizer(Protocol):
    """Text to tokens and back. Many threads call it."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """A conversation as the model wants it, ready for its answer."""

    def encode(self, text: str) -> list[int]:
        """Plain text."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text without special tokens."""
