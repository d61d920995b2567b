"""Loads the model that drafts on the host's cores for `doorbell`. Its threads and its weights are the core's."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from windlass_lookahead import draft_model
from windlass_lookahead._core import HostDrafter

logger = logging.getLogger("windlass.lookahead")
ROWS_MAX = 64
"""Rows with a key-value cache on the host; a draft for more of them takes longer than a step. A guess."""


def settings_of(rows: int, workers: int = 1, bits: int = 8) -> draft_model.Settings:
    """How the draft model runs for a batch of at most `rows` requests, beside those of the other workers.

    `bits` are those of a weight.
    """
    threads = max(1, draft_model.free_cores() // workers)
    return draft_model.Settings(min(rows, ROWS_MAX), body_bits=bits, head_bits=bits, threads=threads)


def host_drafter(directory: str, rows: int, workers: int = 1, bits: int = 8) -> HostDrafter:
    """The drafter of a model directory for a batch of at most `rows` requests; `workers` share the host's cores."""
    begun, chosen = time.monotonic(), settings_of(rows, workers, bits)
    drafter = draft_model.host_drafter(Path(directory), chosen)
    gib, spent_s = draft_model.check(Path(directory), chosen) / 2**30, time.monotonic() - begun
    logger.info(
        "%s drafts on the host's cores, in %.1f GiB of its memory; it was read in %.1f s", directory, gib, spent_s
    )
    return drafter
