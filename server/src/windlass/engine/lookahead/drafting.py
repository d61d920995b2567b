"""Makes the cache of one engine from its settings and the engine's facts of the model. Called by both integrations."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from windlass_lookahead import LookaheadCache, OptionError, Options, options_from_directory, options_from_mapping
from windlass_lookahead.options import entries_for_memory

from windlass.engine.lookahead.settings import LookaheadSettings
from windlass.engine.lookahead.store import Store, now, tokenizer_of
from windlass.engine.lookahead.upkeep import Upkeep, speak
from windlass.engine.startup import memory

SMALLEST = 16
"""Entries of a shared cache that is switched off: as few as the core takes."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine knows better than a configuration file."""

    directory: str
    vocab_size: int
    max_model_len: int
    eos_token_id: int | None = None
    engine: str = "0"
    """Its number among the workers of this container."""


def options(settings: LookaheadSettings, facts: EngineFacts, memory_bytes: int, cores: int) -> Options:
    """The options of one engine's cache.

    Raises:
        OptionError: the configuration cannot be used.
    """
    known = {"voc_size": facts.vocab_size, "max_seq_len": facts.max_model_len}
    if facts.eos_token_id is not None:
        known["eos_token_id"] = facts.eos_token_id
    if settings.config_dir:
        found = options_from_directory(Path(settings.config_dir), **known)
    else:
        found = options_from_mapping({}, "the defaults", **known)
    share = settings.memory_share / settings.workers
    size = entries_for_memory(found.cache_size, memory_bytes, share)
    return replace(
        found,
        cache_size=size if settings.has_cache else SMALLEST,
        global_cache_switch=found.global_cache_switch and settings.has_cache,
        ignore_prompt=found.ignore_prompt or settings.ignore_prompt,
        num_threads=max(1, min(found.num_threads, cores)),
    )


class Drafting:
    """The cache of one engine, with its file and its upkeep."""

    def __init__(self, settings: LookaheadSettings, facts: EngineFacts) -> None:
        speak()
        found = options(settings, facts, memory.host_bytes(), len(os.sched_getaffinity(0)))
        self.cache = LookaheadCache(found)
        self._upkeep = Upkeep(
            self.cache,
            _store(self.cache, settings, facts),
            Path(settings.counts_dir) if settings.counts_dir else None,
            facts.engine,
        )
        self._upkeep.start()

    def close(self) -> None:
        """Write what is to be kept; to be called when the engine ends."""
        self._upkeep.stop()


def _store(cache: LookaheadCache, settings: LookaheadSettings, facts: EngineFacts) -> Store | None:
    tokenizer = tokenizer_of(Path(facts.directory))
    if not (settings.cache_dir and tokenizer and cache.options.global_cache_switch):
        return None
    store = Store(cache, Path(settings.cache_dir), tokenizer, facts.engine, now)
    store.load()
    return store


__all__ = ["Drafting", "EngineFacts", "OptionError", "options"]
