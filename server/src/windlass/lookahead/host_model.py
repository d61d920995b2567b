"""Loads the model that drafts on the host's cores for `doorbell`. Its threads and its weights are the core's."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from windlass_lookahead import draft_model
from windlass_lookahead.round_trip import HostDrafter

logger = logging.getLogger("windlass.lookahead")
ROWS_MAX = 64
"""Rows with a key-value cache on the host; a draft for more of them takes longer than a step. A guess."""


def settings_of(rows: int) -> draft_model.Settings:
    """How the draft model runs for a batch of at most `rows` requests."""
    return draft_model.Settings(rows=min(rows, ROWS_MAX))


def host_drafter(directory: str, rows: int) -> HostDrafter:
    """The drafter of a model directory for a batch of at most `rows` requests."""
    begun = time.monotonic()
    drafter = draft_model.host_drafter(Path(directory), settings_of(rows))
    logger.info("%s drafts on the host's cores; it was read in %.1f s", directory, time.monotonic() - begun)
    return drafter
