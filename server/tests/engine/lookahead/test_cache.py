"""The cache as an engine uses it: drafts, learning, rows that never mix, bounds."""

from __future__ import annotations

import random
import threading

import pytest
from windlass_lookahead import InputError, LookaheadCache, Options, UnknownRequestError

SMALL = Options(cache_size=200_000, copy_length=16, voc_size=8000, min_gain=0.05)


def drafted(cache: LookaheadCache, row: str = "a", most: int = 16) -> list[int]:
    return cache.propose([row], [most])[0].tokens


def decode(cache: LookaheadCache, row: str, prompt: list[int], output: list[int]) -> tuple[int, list[list[int]]]:
    """Greedy decoding along a known output: the steps taken, and every draft."""
    cache.begin(row, prompt)
    cache.accept([row], [output[:1]])
    at, drafts = 1, []
    while at < len(output):
        draft = drafted(cache, row)
        drafts.append(draft)
        accepted = 0
        while accepted < len(draft) and draft[accepted : accepted + 1] == output[at + accepted : at + accepted + 1]:
            accepted += 1
        cache.accept([row], [output[at : at + accepted + 1]])
        at += accepted + 1
    cache.finish(row)
    return len(drafts), drafts


def test_an_exact_repeat_is_drafted_in_whole(prose):
    """The second time, every step but the last holds K accepted tokens."""
    cache = LookaheadCache(SMALL)
    decode(cache, "first", prose[:300], prose[300:])
    steps, _ = decode(cache, "again", prose[:300], prose[300:])
    assert steps <= 299 / 17 + 3


def test_text_that_never_repeats_gets_no_draft(prose):
    """Nothing was seen before, so nothing is expected."""
    cache = LookaheadCache(SMALL)
    _, drafts = decode(cache, "a", prose[:300], prose[300:])
    assert not any(drafts)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_the_prompt_is_copied_in_every_mode(mode, prose):
    """A request that quotes its prompt gets drafts without any earlier request."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "cache_mode": mode}))
    cache.begin("a", prose)
    cache.accept(["a"], [prose[100:120]])
    assert drafted(cache, most=6) == prose[120:126]


def test_rows_of_one_batch_get_their_own_drafts(prose):
    """Drafts follow the request id, in whatever order the rows stand."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "global_cache_switch": False}))
    for row in range(20):
        cache.begin(str(row), [row * 10 + offset for offset in (3, 4, 5, 6, 7, 8)] * 4)
    order = [str(row) for row in (7, 3, 19, 0, 12, 5, 1, 18, 2, 4, 6, 8, 9, 10, 11, 13, 14, 15, 16, 17)]
    for row, draft in zip(order, cache.propose(order, [6] * 20), strict=True):
        assert draft.tokens == [int(row) * 10 + offset for offset in (3, 4, 5, 6, 7, 8)]


def test_an_id_that_is_used_again_starts_anew(prose):
    """A resumed or reused id knows nothing of the text that it named before."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "global_cache_switch": False}))
    cache.begin("a", prose + prose[:50])
    assert drafted(cache) != []
    cache.begin("a", [7, 8, 9])
    assert drafted(cache) == []
    assert cache.active == 1


@pytest.mark.parametrize(("options", "shared"), [({}, True), ({"global_cache_switch": False}, False)])
def test_the_switch_decides_whether_requests_share(options, shared, prose):
    """global_cache_switch off: a request sees its own text alone."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), **options}))
    cache.begin("a", prose)
    cache.finish("a")
    cache.begin("b", prose[:100])
    assert bool(drafted(cache, "b")) is shared


def test_ignored_prompts_are_in_no_draft(prose):
    """ignore_prompt keeps prompts out of both indices."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "ignore_prompt": True}))
    cache.begin("a", prose)
    cache.accept(["a"], [prose[100:120]])
    assert drafted(cache) == []


def test_drafts_end_at_the_model_length_and_at_the_end_of_text(prose):
    """A draft leaves room for the token after it, and nothing stands behind eos."""
    short = LookaheadCache(Options(**{**SMALL.as_mapping(), "max_seq_len": 604}))
    short.begin("a", prose)
    short.accept(["a"], [[prose[100]]])
    assert len(drafted(short)) <= 2
    ending = LookaheadCache(Options(**{**SMALL.as_mapping(), "eos_token_id": prose[123]}))
    ending.begin("a", prose)
    ending.accept(["a"], [prose[100:120]])
    assert drafted(ending) == prose[120:124]


def test_a_batch_keeps_within_target_parallelism(prose):
    """The least likely drafts go first, and every row keeps its own token."""
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "target_parallelism": 40}))
    rows = [str(row) for row in range(10)]
    for row in rows:
        cache.begin(row, prose)
        cache.accept([row], [prose[100:120]])
    free = LookaheadCache(SMALL)
    free.begin("a", prose)
    free.accept(["a"], [prose[100:120]])
    drafts = cache.propose(rows, [16] * 10)
    assert sum(len(draft.tokens) + 1 for draft in drafts) == 40
    assert all(draft.tokens == drafted(free)[: len(draft.tokens)] for draft in drafts)


def test_probabilities_fall_along_a_draft_and_are_those_of_the_whole_prefix(prose):
    """probabilities[i] is that of tokens 0…i together."""
    cache = LookaheadCache(SMALL)
    cache.begin("a", prose)
    cache.accept(["a"], [prose[100:110]])
    probabilities = cache.propose(["a"], [16])[0].probabilities
    assert probabilities == sorted(probabilities, reverse=True)
    assert all(SMALL.min_gain <= p <= 1 for p in probabilities)


def test_probabilities_are_calibrated_on_text_that_lies_half_the_time():
    """A pattern that holds in 60 % of the cases is predicted at about 60 %."""
    chance = random.Random(5)  # noqa: S311  seeded, no secret
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "global_cache_switch": False, "max_seq_len": 100_000}))
    cache.begin("a", [1, 2, 3])
    predicted, kept = 0.0, 0
    for number in range(1500):
        cache.accept(["a"], [[50, 51, 52]])
        draft = cache.propose(["a"], [1])[0]
        token = 60 if chance.random() < 0.6 else 61 + chance.randrange(2000)
        if number > 300 and draft.tokens:
            predicted += draft.probabilities[0]
            kept += draft.tokens[0] == token
        cache.accept(["a"], [[token]])
    assert predicted == pytest.approx(kept, rel=0.1)
    assert kept > 500


def test_drafts_that_were_not_verified_count_as_none(prose):
    """A step verifies fewer drafts than were made; the others were neither right nor wrong."""
    cache = LookaheadCache(SMALL)
    cache.begin("a", prose)
    cache.accept(["a"], [prose[100:110]])
    assert len(drafted(cache)) > 2
    cache.native.accept(["a"], [prose[110:113]], [2])
    assert (cache.metrics().lookahead_len, cache.metrics().hit_len) == (2, 2)
    with pytest.raises(ValueError, match="one number of verified drafts"):
        cache.native.accept(["a"], [prose[113:114]], [2, 1])


def test_metrics_count_iterations_hits_and_waste(prose):
    """The names and sums of the log, for the request and in total."""
    cache = LookaheadCache(SMALL)
    cache.begin("a", prose)
    cache.accept(["a"], [prose[100:120]])
    draft = drafted(cache, most=4)
    cache.accept(["a"], [[*draft[:3], 7999]])
    drafted(cache, most=0)
    cache.accept(["a"], [[5]])
    metrics = cache.metrics("a")
    assert (metrics.num_iters, metrics.hit_iters, metrics.hit_len, metrics.invalid_len) == (2, 1, 3, 1)
    assert (metrics.hit_rate, metrics.global_average_hit_len) == (0.5, 1.5)
    assert (metrics.valid_average_hit_len, metrics.hit_valid_rate) == (3.0, 0.75)
    assert cache.metrics() == metrics


def test_an_unknown_request_is_a_sentence_and_changes_nothing(prose):
    """One unknown row refuses the batch before any row is touched."""
    cache = LookaheadCache(SMALL)
    cache.begin("a", prose)
    with pytest.raises(UnknownRequestError, match="request b is not active; begin it first"):
        cache.accept(["a", "b"], [[5], [5]])
    with pytest.raises(UnknownRequestError):
        cache.propose(["b"], [4])
    with pytest.raises(InputError, match="request a stands twice in one batch"):
        cache.propose(["a", "a"], [4, 4])
    cache.finish("b")
    assert cache.metrics("a").num_iters == 0


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([1, -1], "index 1 is not an integer from 0 up"),
        ([2**31], "outside the vocabulary of 8000"),
        ([2**70], "index 0 is not an integer"),
        ([8000], "token id 8000 at index 0 is outside the vocabulary"),
        (["x"], "index 0 is not an integer"),
        ([1.5], "index 0 is not an integer"),
        (None, "None|iter"),
    ],
)
def test_hostile_token_ids_are_refused(tokens, words):
    """Neither begin nor accept nor teach takes them, and the cache serves on."""
    cache = LookaheadCache(SMALL)
    cache.begin("a", [1, 2, 3])
    for call in (
        lambda: cache.begin("b", tokens),
        lambda: cache.accept(["a"], [tokens]),
        lambda: cache.teach([1], tokens),
    ):
        with pytest.raises(InputError, match=words):
            call()
    assert not cache.knows("b")
    cache.accept(["a"], [[4]])


@pytest.mark.parametrize("threads", [1, 4])
def test_drafts_depend_on_the_calls_alone(threads, prose):
    """Two caches that see the same calls say the same, with one thread or four."""

    def run(count: int) -> list[tuple[list[int], list[float]]]:
        cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "num_threads": count}))
        rows, found = [str(row) for row in range(32)], []
        for row in rows:
            cache.begin(row, prose[int(row) * 5 :] + prose[: int(row)])
        for step in range(12):
            drafts = cache.propose(rows, [step % 9] * 32)
            found += [(draft.tokens, draft.probabilities) for draft in drafts]
            cache.accept(rows, [[*draft.tokens[:2], 40 + step] for draft in drafts])
        return found

    assert run(threads) == run(1)


def test_threads_may_call_at_once(prose):
    """Engines begin and finish from other threads than the one that drafts."""
    cache = LookaheadCache(SMALL)
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(30):
                row = f"{name}-{number}"
                decode(cache, row, prose[name * 20 : name * 20 + 100], prose[300:340])
        except BaseException as error:  # a thread's failure must reach the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, cache.active, cache.requests_seen) == ([], 0, 120)


def test_entries_and_memory_stay_within_the_bound():
    """However much passes, neither grows beyond cache_size."""
    chance = random.Random(3)  # noqa: S311  seeded, no secret
    cache = LookaheadCache(Options(cache_size=4000, voc_size=5000))
    before = cache.memory_bytes
    for _ in range(60):
        cache.teach([], [chance.randrange(5000) for _ in range(500)])
    assert cache.entries <= 4000
    assert cache.memory_bytes == before


def test_the_frequent_survives_the_rare():
    """Eviction takes what came once before what came often."""
    chance = random.Random(4)  # noqa: S311  seeded, no secret
    cache = LookaheadCache(Options(cache_size=4000, voc_size=6000, min_gain=0.05))
    phrase = [5990, 5991, 5992, 5993, 5994, 5995]
    for _ in range(30):
        cache.teach([], phrase)
    for _ in range(12):
        cache.teach([], [chance.randrange(5000) for _ in range(500)])
    cache.begin("a", phrase[:3])
    assert drafted(cache) == phrase[3:]


def test_five_million_entries_are_within_one_gibibyte():
    """The default size, before and after it fills up."""
    assert LookaheadCache(Options()).memory_bytes <= 2**30
