"""vLLM's entry point `vllm.stat_logger_plugins`: counts where prompts' blocks were found, for a line and the facts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from windlass.engine.prefix_offload import counts
from windlass.engine.prefix_offload.hits import HitCount
from windlass.engine.prefix_offload.settings import COUNTS, HIT_COUNT


class HitLogger(StatLoggerBase):  # type: ignore[misc] # vLLM has no types here
    """One for each engine behind the port."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:  # noqa: ANN401 - vLLM's own
        """Silent unless the connector's configuration asks for the line."""
        transfer = vllm_config.kv_transfer_config
        extra = transfer.kv_connector_extra_config if transfer else {}
        self._place = Path(extra[COUNTS]) if extra.get(COUNTS) else None
        self._shows = bool(extra.get(HIT_COUNT))
        counts_any = self._place or self._shows
        self._count = HitCount(vllm_config.cache_config.block_size) if counts_any else None
        self._engine = engine_index
        self._written = 0
        self._log = logging.getLogger("vllm.windlass.prefix_offload")

    def record(self, scheduler_stats: Any, *_: object, **__: object) -> None:  # noqa: ANN401 - vLLM's own
        """A step ended."""
        if self._count is None or scheduler_stats is None:
            return
        card, host = scheduler_stats.prefix_cache_stats, scheduler_stats.connector_prefix_cache_stats
        line = self._count.add(card.queries, card.hits, host.hits if host else 0)
        if line and self._shows:
            self._log.info(line)

    def log(self) -> None:
        """vLLM calls this every 10 s: the supervisor's file is brought up to date."""
        if self._place and self._count and self._count.asked != self._written:
            self._written = self._count.asked
            counts.write(self._place, self._engine, self._count)

    def log_engine_initialized(self) -> None:
        """Nothing."""
