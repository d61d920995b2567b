"""Refuses a start whose lookahead cache could not be made, before anything else is started. Called by `launch.exec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from windlass_sizing.placement.host_draft import ROWS_MAX

from windlass.engine.lookahead import settings
from windlass.engine.startup import memory
from windlass.errors import UsageError

GIB = 2**30
PACKAGE = "windlass_lookahead"
SMALL = 16
"""Entries of the cache that a warm-up file is tried on: as few as the core takes."""


def check(variables: Mapping[str, str], vocabulary: int | None = None) -> tuple[str, ...]:
    """What the start takes of the host, in sentences.

    UsageError for a package that is missing, or a configuration, warm-up file or draft model that cannot be used.
    """
    known = settings.read(variables)
    if known is None:
        return ()
    if find_spec(PACKAGE) is None:
        raise UsageError(
            f"{_switch(known)} needs the package windlass-lookahead; install windlass-server[lookahead] or leave it out"
        )
    notes = (_draft_model(known),) if known.draft_model else ()
    from windlass_lookahead import LookaheadCache, OptionError, options_from_directory

    known_size = {"voc_size": vocabulary} if vocabulary else {}
    try:
        if known.config_dir and (found := options_from_directory(Path(known.config_dir), **known_size)).warmup_file:
            LookaheadCache(replace(found, cache_size=SMALL))
    except OptionError as error:
        raise UsageError(
            f"--lookahead-cache-config-dir: {str(error).rstrip('.')}; correct it or leave it out"
        ) from None
    return notes


def _switch(known: settings.LookaheadSettings) -> str:
    return "--cpu-draft-worker" if known.draft_model else "--use-lookahead"


def _draft_model(known: settings.LookaheadSettings) -> str:
    """What the model that drafts takes of the host.

    UsageError for one that the decoder on the host does not know, or that the host's memory does not hold.
    """
    from windlass_lookahead import OptionError, draft_model

    from windlass.engine.lookahead.host_model import settings_of

    chosen = settings_of(known, known.draft_rows or ROWS_MAX)
    try:
        needed = known.workers * draft_model.check(Path(known.draft_model), chosen)
    except OptionError as error:
        raise UsageError(f"--cpu-draft-worker: {str(error).rstrip('.')}; or leave --cpu-draft-worker out") from None
    there = memory.host_bytes()
    if 0 < there < needed:
        raise UsageError(
            f"--cpu-draft-worker: {known.draft_model} takes {needed / GIB:.1f} GiB of the host's memory with "
            f"{known.workers} worker(s), and there are {there / GIB:.1f}; take a smaller draft model, or leave it out"
        )
    where = "each engine drafts" if known.workers > 1 else "the engine drafts"
    return (
        f"{where} on {chosen.threads} of the host's cores by {known.draft_model}, in {needed / GIB:.1f} GiB of host "
        "memory in all"
    )
