"""Which tokens would repeat a run of tokens: `no_repeat_ngram_size`, row by row. Pure; `on_host` adds tensors.

The rule is that of transformers: a run counts wherever it stands, in the prompt or in the answer. Each sequence keeps
the followers of every run of n - 1 tokens, so a new token costs one entry however long the sequence is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

PARAMETER = "no_repeat_ngram_size"
NOT_YET = -1
"""The engine writes this in place of a token that is still on its way from the device."""


class Params(Protocol):
    """What is read of the engine's sampling parameters."""

    @property
    def extra_args(self) -> Mapping[str, Any] | None:
        """Parameters that the engine itself does not know."""


class Direction(Protocol):
    """How a row is moved: the engine's enumeration, of which only the name is read."""

    @property
    def name(self) -> str:
        """UNIDIRECTIONAL or SWAP."""


class BatchChange(Protocol):
    """The engine's news about its batch; to be read in the order added, removed, moved."""

    @property
    def added(self) -> Sequence[tuple[int, Params, Sequence[int] | None, Sequence[int]]]:
        """Row, parameters, prompt, and the list that the answer grows in."""

    @property
    def removed(self) -> Sequence[int]:
        """Rows that are empty now."""

    @property
    def moved(self) -> Sequence[tuple[int, int, Direction]]:
        """From, to, and whether the two change places."""


def size_of(params: Params) -> int:
    """The size that a request asks for, 0 for none; ValueError when it is no size."""
    size = (params.extra_args or {}).get(PARAMETER)
    if size is None:
        return 0
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ValueError(f"{PARAMETER} is {size!r}; it must be a whole number of at least 0")
    return size


class Ngrams:
    """The runs of one sequence."""

    __slots__ = ("_context", "_followers", "_tail")

    def __init__(self, size: int) -> None:
        """An empty sequence; `size` is at least 1."""
        self._context = size - 1
        self._tail: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], list[int]] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Go on with these tokens."""
        for token in tokens:
            is_full = len(self._tail) == self._context
            if is_full:
                self._followers.setdefault(self._tail, []).append(token)
            self._tail = (*self._tail, token)[is_full:]

    def banned(self) -> Sequence[int]:
        """Tokens that would end a run which the sequence has had; one may stand here twice."""
        return self._followers.get(self._tail, ())


class History:
    """One request: its prompt, and the answer as far as it has been read."""

    __slots__ = ("_answer", "_ngrams", "_prompt", "_read", "_size")

    def __init__(self, size: int, prompt: Sequence[int] | None, answer: Sequence[int]) -> None:
        """`answer` is the engine's own list, which grows."""
        self._size, self._prompt, self._answer = size, prompt or (), answer
        self._begin()

    def banned(self) -> Sequence[int]:
        """What must not come next."""
        if len(self._answer) < self._read:  # the engine took tokens back
            self._begin()
        new = self._answer[self._read :]
        if NOT_YET in new:
            new = new[: new.index(NOT_YET)]
        self._ngrams.extend(new)
        self._read += len(new)
        return self._ngrams.banned()

    def _begin(self) -> None:
        self._ngrams, self._read = Ngrams(self._size), 0
        self._ngrams.extend(self._prompt)


class Rows:
    """The rows of the engine's batch that asked for the rule."""

    def __init__(self) -> None:
        """None yet."""
        self._histories: dict[int, History] = {}

    def update(self, change: BatchChange | None) -> None:
        """Follow the engine's batch."""
        if change is None:
            return
        for row, params, prompt, answer in change.added:
            self._put(row, History(size, prompt, answer) if (size := size_of(params)) else None)
        for row in change.removed:
            self._put(row, None)
        for source, target, direction in change.moved:
            before = self._histories.get(target)
            self._put(target, self._histories.get(source))
            self._put(source, before if direction.name == "SWAP" else None)

    def banned(self, vocab_size: int) -> tuple[list[int], list[int]]:
        """Rows and tokens, side by side. A prompt may hold tokens past the vocabulary, as an image's."""
        pairs = [
            (row, token) for row, history in self._histories.items() for token in history.banned() if token < vocab_size
        ]
        return [row for row, _ in pairs], [token for _, token in pairs]

    def _put(self, row: int, history: History | None) -> None:
        if history is None:
            self._histories.pop(row, None)
        else:
            self._histories[row] = history
