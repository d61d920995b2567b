"""Beside the steps: counts for the API's process, the cache's file, options from the start command."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest, multiprocess
from windlass.engine.lookahead import counts, drafting, plugin
from windlass.engine.lookahead.counts import Counts
from windlass.engine.lookahead.drafting import EngineFacts
from windlass.engine.lookahead.plugin import Collector
from windlass.engine.lookahead.settings import VARIABLE, LookaheadSettings, read
from windlass.engine.lookahead.store import BUSY_SAVE_S, IDLE_SAVE_S, Store, tokenizer_of
from windlass.engine.lookahead.upkeep import IDLE_ROUNDS, Upkeep
from windlass_lookahead import LookaheadCache, OptionError, Options

FACTS = EngineFacts("/nowhere", vocab_size=5000, max_model_len=777, eos_token_id=3)
GIB = 1024**3
SMALL = Options(voc_size=100, cache_size=1000)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_settings_travel_as_a_variable():
    chosen = LookaheadSettings(config_dir="/c", memory_share=0.5, workers=2, ignore_prompt=True, cache_dir="/k")
    assert read({VARIABLE: chosen.to_json()}) == chosen
    assert read({}) is None


def test_the_model_wins_over_the_file_and_the_flag_over_both(tmp_path):
    (tmp_path / "lookahead_cache_config.json").write_text('{"voc_size": 7, "cache_mode": 1, "num_threads": 8}')
    chosen = LookaheadSettings(config_dir=str(tmp_path), ignore_prompt=True)
    found = drafting.options(chosen, FACTS, 64 * GIB, cores=2)
    assert (found.voc_size, found.max_seq_len, found.eos_token_id) == (5000, 777, 3)
    assert (found.cache_mode, found.ignore_prompt, found.num_threads) == (1, True, 2)


def test_the_smaller_of_cache_size_and_memory_share_wins():
    """Workers of one container share the memory."""
    one = drafting.options(LookaheadSettings(memory_share=0.1), FACTS, GIB // 16, cores=2)
    two = drafting.options(LookaheadSettings(memory_share=0.1, workers=2), FACTS, GIB // 16, cores=2)
    assert one.cache_size == int(GIB / 16 * 0.1 / 20)
    assert two.cache_size == pytest.approx(one.cache_size / 2, abs=1)
    assert drafting.options(LookaheadSettings(), FACTS, 64 * GIB, cores=2).cache_size == 5_000_000


def test_a_broken_configuration_is_one_sentence(tmp_path):
    (tmp_path / "lookahead_cache_config.json").write_text('{"cache_sise": 7}')
    with pytest.raises(OptionError, match="has no option 'cache_sise'"):
        drafting.options(LookaheadSettings(config_dir=str(tmp_path)), FACTS, GIB, cores=2)


def test_counts_become_metrics(tmp_path):
    """What two engines left in files is what the API's page shows."""
    counts.write(Counts(100, 40, 120, 160, requests=5, entries=9, memory_bytes=10), tmp_path, "0")
    counts.write(Counts(7), tmp_path, "1")
    (tmp_path / "2.json").write_text("{")
    registry = CollectorRegistry()
    registry.register(Collector(tmp_path))
    page = generate_latest(registry).decode()
    assert 'windlass_lookahead_num_iters_total{engine="0"} 100.0' in page
    assert 'windlass_lookahead_num_iters_total{engine="1"} 7.0' in page
    assert 'windlass_lookahead_invalid_len_total{engine="0"} 40.0' in page
    assert 'windlass_lookahead_hit_rate{engine="0"} 0.4' in page
    assert 'windlass_lookahead_global_average_hit_len{engine="0"} 1.2' in page
    assert 'windlass_lookahead_valid_average_hit_len{engine="0"} 3.0' in page
    assert 'windlass_lookahead_hit_valid_rate{engine="0"} 0.75' in page
    assert 'engine="2"' not in page


def test_counts_are_on_the_page_of_several_api_processes(tmp_path, monkeypatch):
    """vLLM makes a registry of the processes' files for it; our counts are in none of these files."""
    monkeypatch.setattr(multiprocess, "MultiProcessCollector", multiprocess.MultiProcessCollector)
    counts.write(Counts(100, 40, 120, 160, requests=5, entries=9, memory_bytes=10), tmp_path, "0")
    plugin._join(Collector(tmp_path))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, str(tmp_path))
    assert 'windlass_lookahead_requests_total{engine="0"} 5.0' in generate_latest(registry).decode()


def test_a_page_before_the_first_counts_is_empty(tmp_path):
    registry = CollectorRegistry()
    registry.register(Collector(tmp_path / "none"))
    assert "{" not in generate_latest(registry).decode()


def test_the_cache_survives_a_restart(tmp_path):
    first = LookaheadCache(SMALL)
    store = Store(first, tmp_path, "abc", "0", Clock())
    first.begin("a", [1, 2, 3, 4, 5])
    first.finish("a")
    store.save()
    second = LookaheadCache(SMALL)
    Store(second, tmp_path, "abc", "0", Clock()).load()
    assert second.entries == first.entries > 0


def test_a_file_of_another_tokenizer_is_logged_and_serving_goes_on(tmp_path, caplog):
    first = LookaheadCache(SMALL)
    first.begin("a", [1, 2, 3])
    store = Store(first, tmp_path, "abc", "0", Clock())
    store.save()
    other = LookaheadCache(SMALL)
    foreign = Store(other, tmp_path, "xyz", "0", Clock())
    store.path.rename(foreign.path)
    foreign.load()
    assert other.entries == 0


def test_it_is_written_when_idle_and_seldom_when_busy(tmp_path):
    clock, cache = Clock(), LookaheadCache(SMALL)
    store = Store(cache, tmp_path, "abc", "0", clock)

    def news():
        cache.begin(f"request {cache.requests_seen}", [1, 2, 3])
        store.path.unlink(missing_ok=True)

    def written(*, idle):
        store.save_if_due(idle=idle)
        return store.path.exists()

    assert not written(idle=True), "there is nothing to write"
    news()
    assert not written(idle=False)
    assert written(idle=True)
    news()
    clock.now += IDLE_SAVE_S - 1
    assert not written(idle=True)
    clock.now += 1
    assert written(idle=True)
    news()
    clock.now += BUSY_SAVE_S - 1
    assert not written(idle=False)
    clock.now += 1
    assert written(idle=False)


def test_the_counts_tell_requests_that_ended_from_those_that_began(tmp_path):
    cache = LookaheadCache(SMALL)
    upkeep = Upkeep(cache, None, tmp_path, "0")
    for name in ("ends", "goes on"):
        cache.begin(name, [1, 2, 3])
    cache.finish("ends")
    upkeep.once()
    (found,) = [count for _, count in counts.read(tmp_path)]
    assert (found.requests, found.requests_ended) == (2, 1)


def test_an_engine_without_iterations_is_idle(tmp_path):
    cache = LookaheadCache(SMALL)
    store = Store(cache, tmp_path / "store", "abc", "0", Clock())
    upkeep = Upkeep(cache, store, tmp_path / "counts", "3")
    cache.begin("a", [1, 2, 3])
    for _ in range(IDLE_ROUNDS):
        assert not store.path.exists()
        upkeep.once()
    assert store.path.exists()
    [(engine, found)] = counts.read(tmp_path / "counts")
    assert (engine, found.requests) == ("3", 1)


def test_the_tokenizer_is_known_by_its_file(tmp_path):
    assert tokenizer_of(tmp_path) == ""
    (tmp_path / "tokenizer.json").write_text("{}")
    one = tokenizer_of(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{ }")
    assert len(one) == 64 and tokenizer_of(tmp_path) != one
