"""`no_repeat_ngram_size`, the rule: against its definition, and through what the batch of the engine does."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass.engine.sampling.ngrams import NOT_YET, History, Rows, size_of

TOKENS = st.lists(st.integers(0, 4), max_size=40)
SWAP, MOVE = SimpleNamespace(name="SWAP"), SimpleNamespace(name="UNIDIRECTIONAL")
VOCABULARY = 100


def by_definition(sequence: list[int], size: int) -> set[int]:
    """Every token that would make the last `size` tokens a run that is in the sequence already."""
    runs = {tuple(sequence[at : at + size]) for at in range(len(sequence) - size + 1)}
    return {token for token in range(5) if (*sequence[len(sequence) - size + 1 :], token) in runs}


def asking(size: object) -> SimpleNamespace:
    return SimpleNamespace(extra_args={"no_repeat_ngram_size": size})


def change(added=(), removed=(), moved=()) -> SimpleNamespace:
    return SimpleNamespace(added=added, removed=removed, moved=moved)


@settings(deadline=None)
@given(prompt=TOKENS, answer=TOKENS, size=st.integers(1, 5))
def test_token_by_token_it_says_what_the_definition_says(prompt: list[int], answer: list[int], size: int) -> None:
    """The answer grows as the engine's does, one token a step."""
    grows: list[int] = []
    history = History(size, prompt, grows)
    for token in [*answer, 0]:
        assert set(history.banned()[0]) == by_definition(prompt + grows, size)
        grows.append(token)


@settings(deadline=None)
@given(prompt=TOKENS, answer=TOKENS, cut=st.integers(0, 40))
def test_tokens_that_the_engine_takes_back(prompt: list[int], answer: list[int], cut: int) -> None:
    """It forgets the runs that ended in them."""
    history = History(2, prompt, answer)
    history.banned()
    del answer[cut:]
    assert set(history.banned()[0]) == by_definition(prompt + answer, 2)


@settings(deadline=None)
@given(prompt=TOKENS, answer=TOKENS, drafts=TOKENS, size=st.integers(1, 5))
def test_drafts_count_for_the_places_behind_them(
    prompt: list[int], answer: list[int], drafts: list[int], size: int
) -> None:
    """Each place has the bans of the sequence and the drafts before it; the sequence itself stays as it was."""
    history = History(size, prompt, answer)
    sequence = prompt + answer
    wanted = [by_definition(sequence + drafts[:place], size) for place in range(len(drafts) + 1)]
    assert [set(tokens) for tokens in history.banned(drafts)] == wanted
    assert set(history.banned()[0]) == by_definition(sequence, size)


def test_drafts_are_numbered_through_the_batch() -> None:
    """Rows without the rule have drafts too; behind the last draft each row has one place of its own."""
    rows, drafts = Rows(), [[7, 8], [], [3, 4]]
    rows.update(change(added=[(1, asking(1), [5], []), (2, asking(1), [6, VOCABULARY], [])]))
    assert rows.banned_at_drafts(VOCABULARY, drafts) == ([2, 3, 3], [6, 6, 3])
    assert rows.banned(VOCABULARY, drafts) == ([1, 2, 2, 2], [5, 6, 3, 4])
    assert rows.banned(VOCABULARY) == ([1, 2], [5, 6])


def test_a_token_that_is_on_its_way_is_read_when_it_is_there() -> None:
    """The engine schedules ahead and writes a placeholder first."""
    answer = [1, 2, NOT_YET]
    history = History(2, None, answer)
    assert list(history.banned()[0]) == []
    answer[2:] = [1]
    assert list(history.banned()[0]) == [2]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_rows_follow_the_batch(data: st.DataObject) -> None:
    """Requests come, go, move and change places; each row bans what its own request's sequence says."""
    rows, batch = Rows(), [None] * 6
    for _ in range(data.draw(st.integers(1, 12))):
        removed = [row for row, one in enumerate(batch) if one and data.draw(st.booleans())]
        for row in removed:
            batch[row] = None
        added = []
        for row in range(6):
            if batch[row] is None and data.draw(st.booleans()):
                size, prompt = data.draw(st.sampled_from([0, 1, 2, 3])), data.draw(TOKENS)
                batch[row] = (size, prompt, [])
                added.append((row, asking(size) if size else SimpleNamespace(extra_args=None), *batch[row][1:]))
        moved = []
        for _ in range(data.draw(st.integers(0, 3))):
            source, target = data.draw(st.permutations(range(6)))[:2]
            direction = data.draw(st.sampled_from([SWAP, MOVE]))
            moved.append((source, target, direction))
            batch[target], batch[source] = batch[source], batch[target] if direction is SWAP else None
        taken = {row for row, *_ in added}
        rows.update(change(added, [row for row in removed if row not in taken], moved))
        found = set(zip(*rows.banned(VOCABULARY), strict=True))
        wanted = {
            (row, token)
            for row, one in enumerate(batch)
            if one and one[0]
            for token in by_definition(one[1] + one[2], one[0])
        }
        assert found == wanted
        for one in filter(None, batch):
            one[2].append(data.draw(st.integers(0, 4)))


def test_nobody_asks() -> None:
    """Nothing is kept for a request without the parameter."""
    rows = Rows()
    rows.update(change(added=[(0, SimpleNamespace(extra_args=None), [1, 1], [1]), (1, asking(0), [1], [1])]))
    rows.update(None)
    assert rows.banned(VOCABULARY) == ([], [])


def test_tokens_past_the_vocabulary_are_no_logits() -> None:
    """An image's placeholder stands in the prompt and in no row of logits."""
    rows = Rows()
    rows.update(change(added=[(0, asking(1), [3, 100, 7], [])]))
    assert rows.banned(100) == ([0, 0], [3, 7])


@pytest.mark.parametrize("size", [-1, 129, 1.5, "3", True, [3]])
def test_what_is_no_size(size: object) -> None:
    """One sentence, which the engine answers with 400."""
    with pytest.raises(ValueError, match=r"no_repeat_ngram_size is .*; it must be a whole number from 0 to 128"):
        size_of(asking(size))
