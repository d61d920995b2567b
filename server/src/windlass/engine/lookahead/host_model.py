"""Loads the model that drafts on the host's cores for `doorbell`. Its threads and its weights are the core's."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from windlass_lookahead import draft_model
from windlass_lookahead._core import HostDrafter
from windlass_sizing.placement.host_draft import ROWS_MAX

from windlass.engine.lookahead.settings import LookaheadSettings

logger = logging.getLogger("windlass.lookahead")


def settings_of(known: LookaheadSettings, rows: int = ROWS_MAX) -> draft_model.Settings:
    """How the draft model runs for a batch of at most `rows` requests; the workers share the host's cores."""
    threads = known.draft_threads or max(1, draft_model.free_cores() // known.workers)
    bits = known.draft_bits
    return draft_model.Settings(min(rows, ROWS_MAX), body_bits=bits, head_bits=bits, threads=threads)


def host_drafter(known: LookaheadSettings, rows: int) -> HostDrafter:
    """The drafter of the settings' model for a batch of at most `rows` requests."""
    begun, chosen = time.monotonic(), settings_of(known, rows)
    directory = Path(known.draft_model)
    drafter = draft_model.host_drafter(directory, chosen)
    gib, spent_s = draft_model.check(directory, chosen) / 2**30, time.monotonic() - begun
    logger.info(
        "%s drafts on %d of the host's cores, in %.1f GiB of its memory; it was read in %.1f s",
        directory,
        chosen.threads,
        gib,
        spent_s,
    )
    return drafter
