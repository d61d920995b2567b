"""Which tokens would repeat a run of tokens: `no_repeat_ngram_size`, row by row. Pure; `on_host` adds tensors.

The rule is that of transformers: a run counts wherever it stands, in the prompt or in the answer. Each sequence keeps
the followers of every run of n - 1 tokens, so a new token costs one entry however long the sequence is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat
from typing import Any, Protocol

PARAMETER = "no_repeat_ngram_size"
PROCESSOR = "windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram"
"""The rule, as the engine's `--logits-processors` names it."""
SIZE_MAX = 128
"""Tokens. A sequence keeps a run of this length for each of its tokens: 1 KiB a token at the most."""
Pairs = tuple[list[int], list[int]]
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
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= SIZE_MAX:
        raise ValueError(f"{PARAMETER} is {size!r}; it must be a whole number from 0 to {SIZE_MAX}")
    return size


class Ngrams:
    """The runs of one sequence."""

    __slots__ = ("_context", "_followers", "_tail")

    def __init__(self, size: int) -> None:
        """An empty sequence; `size` is at least 1."""
        self._context = size - 1
        self._tail: tuple[int, ...] = ()
        self._followers: dict[tuple[int, ...], dict[int, None]] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Go on with these tokens."""
        for token in tokens:
            is_full = len(self._tail) == self._context
            if is_full:
                self._followers.setdefault(self._tail, {})[token] = None
            self._tail = (*self._tail, token)[is_full:]

    def banned(self, drafts: Iterable[int] = ()) -> Iterator[Collection[int]]:
        """Before each draft and behind the last: tokens that would end a run which stands before; one may come twice.

        The drafts count for the places behind them, and the sequence stays as it is.
        """
        tail = self._tail
        drafted: dict[tuple[int, ...], list[int]] = {}
        yield self._followers.get(tail, ())
        for token in drafts:
            is_full = len(tail) == self._context
            if is_full:
                drafted.setdefault(tail, []).append(token)
            tail = (*tail, token)[is_full:]
            yield (*self._followers.get(tail, ()), *drafted.get(tail, ()))


class History:
    """One request: its prompt, and the answer as far as it has been read."""

    __slots__ = ("_answer", "_ngrams", "_prompt", "_read", "_size")

    def __init__(self, size: int, prompt: Sequence[int] | None, answer: Sequence[int]) -> None:
        """`answer` is the engine's own list, which grows."""
        self._size, self._prompt, self._answer = size, prompt or (), answer
        self._begin()

    def banned(self, drafts: Sequence[int] = ()) -> list[Collection[int]]:
        """What must not come at each draft's place, and behind the last."""
        if len(self._answer) < self._read:  # the engine took tokens back
            self._begin()
        new = self._answer[self._read :]
        if NOT_YET in new:
            new = new[: new.index(NOT_YET)]
        self._ngrams.extend(new)
        self._read += len(new)
        return list(self._ngrams.banned(drafts))

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

    def __bool__(self) -> bool:
        """Whether any row asked."""
        return bool(self._histories)

    def banned(self, vocab_size: int, drafts: Sequence[Sequence[int]] = ()) -> Pairs:
        """Rows and tokens, behind the drafts of each row."""
        found = ((row, history.banned(drafts[row] if drafts else ())) for row, history in self._histories.items())
        return _pairs(((row, places[-1]) for row, places in found), vocab_size)

    def banned_at_drafts(self, vocab_size: int, drafts: Sequence[Sequence[int]]) -> Pairs:
        """Drafts, numbered through the batch, and tokens that must not stand in their places."""
        starts = [0, *accumulate(map(len, drafts))]
        each = (
            (starts[row] + number, tokens)
            for row, history in self._histories.items()
            for number, tokens in enumerate(history.banned(drafts[row])[:-1])
        )
        return _pairs(each, vocab_size)

    def _put(self, row: int, history: History | None) -> None:
        if history is None:
            self._histories.pop(row, None)
        else:
            self._histories[row] = history


def _pairs(banned: Iterable[tuple[int, Collection[int]]], vocab_size: int) -> Pairs:
    """Side by side. A prompt may hold tokens past the vocabulary, as an image's."""
    each = list(banned)
    rows = list(chain.from_iterable(repeat(row, len(tokens)) for row, tokens in each))
    tokens = list(chain.from_iterable(tokens for _, tokens in each))
    if max(tokens, default=0) < vocab_size:
        return rows, tokens
    known = [(row, token) for row, token in zip(rows, tokens, strict=True) if token < vocab_size]
    return [row for row, _ in known], [token for _, token in known]
