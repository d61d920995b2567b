"""The native core against a slow, exact lookahead that shares no code with it, where nothing is evicted."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_lookahead import LookaheadCache, Options

texts = st.lists(st.integers(0, 9), min_size=1, max_size=60)


class ExactContexts:
    """Counts of next tokens for every context of 1…longest tokens, without hashing and without bounds."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.counts: dict[tuple[int, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))

    def learn(self, text: list[int]) -> None:
        for at, token in enumerate(text):
            for length in range(1, min(self.longest, at) + 1):
                self.counts[tuple(text[at - length : at])][token] += 1

    def followers(self, context: list[int]) -> set[int]:
        """Tokens that ever followed a suffix of the context, of any length."""
        found: set[int] = set()
        for length in range(1, min(self.longest, len(context)) + 1):
            found |= set(self.counts.get(tuple(context[-length:]), {}))
        return found

    def pairs(self) -> int:
        """(context, next token) pairs: the entries that the shared cache must count."""
        return sum(len(next_tokens) for next_tokens in self.counts.values())


def longest_repeat(text: list[int]) -> tuple[int, int]:
    """(length, place of the token behind it) of the longest earlier match of the text's end; (0, -1) of none."""
    best = (0, -1)
    for place in range(1, len(text)):
        length = 0
        while length < place and text[place - 1 - length] == text[len(text) - 1 - length]:
            length += 1
        if length > best[0]:
            best = (length, place)
    return best


@given(st.lists(texts, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_shared_cache_holds_exactly_the_pairs_of_a_slow_reference(requests):
    """Every (context, next token) pair once, as an exact dictionary counts them."""
    cache = LookaheadCache(Options(cache_size=400_000, voc_size=10, eos_token_id=9, cell_max_size=32))
    exact = ExactContexts(7)
    for text in requests:
        cache.teach([], text)
        exact.learn(text)
    assert cache.entries == exact.pairs()


@given(st.lists(texts, min_size=1, max_size=4), texts)
@settings(max_examples=80, deadline=None)
def test_a_draft_only_says_what_followed_such_a_context_before(requests, prompt):
    """Each drafted token followed some suffix of the text before it; min_gain 0 shows all that the core knows."""
    cache = LookaheadCache(Options(cache_size=200_000, voc_size=10, eos_token_id=9, copy_length=8, cell_max_size=32))
    exact = ExactContexts(7)
    for text in requests:
        cache.teach([], text)
        exact.learn(text)
    exact.learn(prompt)
    cache.begin("a", prompt)
    seen = list(prompt)
    for token in cache.propose(["a"], [8], min_gain=0.0)[0].tokens:
        allowed = exact.followers(seen) | {place for place in [aligned(seen, len(prompt))] if place is not None}
        assert token in allowed
        seen.append(token)


def aligned(text: list[int], known: int) -> int | None:
    length, place = longest_repeat(text[:known])
    return text[place] if length else None


@given(texts)
@settings(max_examples=80, deadline=None)
def test_a_long_own_match_is_continued(prompt):
    """Where the text repeats twelve tokens of its own, the draft starts with what followed them."""
    unit = [10 + at for at in range(20)]
    cache = LookaheadCache(Options(cache_size=1000, voc_size=40, eos_token_id=39))
    text = [*unit, *prompt, *unit[:12]]
    cache.begin("a", text)
    length, place = longest_repeat(text)
    assert length == 12
    assert cache.propose(["a"], [1])[0].tokens == [text[place]]
