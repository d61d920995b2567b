"""Warm-up files and cache files, whole and broken."""

from __future__ import annotations

import json

import pytest
from windlass_lookahead import CacheFileError, LookaheadCache, OptionError, Options
from windlass_lookahead.cache import tokenizer_hash

SMALL = Options(cache_size=20_000, voc_size=8000, copy_length=16)
OURS = tokenizer_hash({"a": 1, "b": 2})


def drafted(cache: LookaheadCache, prompt: list[int]) -> list[int]:
    cache.begin("a", prompt)
    tokens = cache.propose(["a"], [16])[0].tokens
    cache.begin("a", [])
    return tokens


def continues(draft: list[int], prose: list[int]) -> bool:
    """A cache that learned from no verified draft yet is careful, so the whole limit is not asked for."""
    return len(draft) >= 8 and draft == prose[320 : 320 + len(draft)]


@pytest.fixture
def taught(prose) -> LookaheadCache:
    cache = LookaheadCache(SMALL)
    cache.teach(prose[:300], prose[300:])
    return cache


def test_a_warm_up_file_serves_the_first_request(tmp_path, prose):
    """The option names it; what it holds is drafted at once."""
    path = tmp_path / "warm.json"
    path.write_text(json.dumps([{"prompt": prose[:300], "output": prose[300:]}]))
    cache = LookaheadCache(Options(**{**SMALL.as_mapping(), "warmup_file": str(path)}))
    assert continues(drafted(cache, prose[:320]), prose)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "is not readable JSON"),
        ("{}", "must hold a list"),
        ('[{"prompt": [1]}]', 'exchange 0: needs "prompt" and "output"'),
        ('[{"prompt": [1], "output": [2]}, {"prompt": [1], "output": [-2]}]', "exchange 1: the token id at index 0"),
        ('[{"prompt": [1], "output": [9999]}]', "exchange 0: token id 9999 at index 0 is outside the vocabulary"),
    ],
)
def test_a_broken_warm_up_file_is_refused_by_place(tmp_path, content, words):
    """The sentence names the file and the exchange."""
    path = tmp_path / "warm.json"
    path.write_text(content)
    with pytest.raises(OptionError, match=words):
        LookaheadCache(Options(**{**SMALL.as_mapping(), "warmup_file": str(path)}))


def test_a_missing_warm_up_file_is_refused(tmp_path):
    """An absent file is no empty file."""
    with pytest.raises(OptionError, match="is not readable JSON"):
        LookaheadCache(Options(warmup_file=str(tmp_path / "none.json")))


def test_a_cache_file_survives_a_restart(tmp_path, taught, prose):
    """A new process drafts what the old one knew, with the same probabilities."""
    path = tmp_path / "cache.bin"
    taught.save(path, OURS)
    fresh = LookaheadCache(SMALL)
    fresh.load(path, OURS)
    assert drafted(fresh, prose[:320]) == drafted(taught, prose[:320])
    assert continues(drafted(fresh, prose[:320]), prose)
    assert fresh.entries == taught.entries


def test_a_foreign_tokenizer_is_refused_and_the_cache_serves_on(tmp_path, taught, prose):
    """Token ids of another vocabulary mean other words."""
    taught.save(tmp_path / "c", tokenizer_hash({"a": 2}))
    with pytest.raises(CacheFileError, match="holds tokens of another tokenizer"):
        taught.load(tmp_path / "c", OURS)
    assert continues(drafted(taught, prose[:320]), prose)


@pytest.mark.parametrize("other", [{"cache_size": 40_000}, {"turbo_match_length": 5}])
def test_a_file_of_another_shape_is_refused(tmp_path, taught, other):
    """The sentence names the options that differ."""
    taught.save(tmp_path / "c", OURS)
    with pytest.raises(CacheFileError, match="another cache_size or turbo_match_length"):
        LookaheadCache(Options(**{**SMALL.as_mapping(), **other})).load(tmp_path / "c", OURS)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: raw[:-100], "is damaged"),
        (lambda raw: raw + b"x", "is damaged"),
        (lambda raw: raw[:5000] + bytes([raw[5000] ^ 1]) + raw[5001:], "is damaged"),
        (lambda raw: b"x" + raw[1:], "is not a lookahead cache file"),
        (lambda raw: raw[:20], "is not a lookahead cache file"),
        (lambda raw: b"", "is not a lookahead cache file"),
    ],
    ids=["cut", "longer", "one bit", "magic", "header", "empty"],
)
def test_a_damaged_file_is_refused_and_nothing_is_lost(tmp_path, taught, prose, damage, words):
    """The cache in memory stays as it was."""
    path = tmp_path / "c"
    taught.save(path, OURS)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CacheFileError, match=words):
        taught.load(path, OURS)
    assert continues(drafted(taught, prose[:320]), prose)


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path, taught):
    """And it leaves no half-written file behind."""
    with pytest.raises(CacheFileError, match="cannot write the lookahead cache file"):
        taught.save(tmp_path / "none" / "c", OURS)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_file_is_a_sentence(tmp_path, taught):
    """The first start has none."""
    with pytest.raises(CacheFileError, match="cannot read"):
        taught.load(tmp_path / "c", OURS)
