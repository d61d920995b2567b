"""The text of one answer as its tokens come: whole characters only, cut before the first stop word. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from windlass_deepspeed.sampling import Sampling

Decode = Callable[[Sequence[int]], str]
UNFINISHED = "\ufffd"
"""What a decoder shows for bytes that are no whole character yet."""


@dataclass(frozen=True, slots=True)
class Piece:
    """More text, how many tokens were drawn so far, and why the answer is over when it is: `stop` or `length`."""

    text: str
    tokens: int
    finish_reason: str | None = None


@dataclass(slots=True)
class Progress:
    """Feed tokens, get pieces; their texts joined are the answer."""

    decode: Decode
    sampling: Sampling
    stop_ids: frozenset[int]
    tokens: int = 0
    _said: list[int] = field(default_factory=list)
    _read: int = 0
    """How many of the kept tokens are already in the text."""
    _held: str = ""
    """Text that may be the beginning of a stop word."""

    def feed(self, token: int) -> Piece:
        """The piece that this token completes; a stop token completes the answer and says nothing."""
        self.tokens += 1
        ended = token in self.stop_ids and not self.sampling.ignore_eos
        if not ended:
            self._said.append(token)
        last = ended or self.tokens >= self.sampling.max_tokens
        self._held += self._new_text(last=last)
        at = self._stop_at()
        if at is not None:
            return Piece(self._held[:at], self.tokens, "stop")
        if last:
            return Piece(self._held, self.tokens, "stop" if ended else "length")
        return Piece(self._safe(), self.tokens)

    def _new_text(self, *, last: bool) -> str:
        """The text of the tokens that are not read yet, with the ones before as their context."""
        before = self.decode(self._said[: self._read])
        after = self.decode(self._said)
        if after.endswith(UNFINISHED) and not last:
            return ""
        # Only the newest tokens are context for the next ones, so that a long answer costs no more a token.
        self._said = self._said[self._read :]
        self._read = len(self._said)
        return after[len(before) :]

    def _stop_at(self) -> int | None:
        found = (self._held.find(word) for word in self.sampling.stop)
        return min((at for at in found if at >= 0), default=None)

    def _safe(self) -> str:
        """The text that no stop word can begin in."""
        keep = max((_overlap(self._held, word) for word in self.sampling.stop), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text


def _overlap(text: str, word: str) -> int:
    """How many of the text's last characters are the word's first."""
    longest = min(len(text), len(word) - 1)
    return next((size for size in range(longest, 0, -1) if word.startswith(text[-size:])), 0)
