"""vLLM's entry point `vllm.general_plugins`: shows the cache's counts at the API's /metrics.

vLLM calls `register` in every process; only that of the API has a page of metrics, and a process without lookahead
is left as it is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.lookahead import settings

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@functools.cache
def register() -> None:
    """Add the collector, once a process."""
    known = settings.read(os.environ)
    if known is None or not known.counts_dir:
        return
    from prometheus_client import REGISTRY

    REGISTRY.register(Collector(Path(known.counts_dir)))


class Collector:
    """Reads the count files when somebody asks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def describe(self) -> list[Metric]:
        """Nothing ahead: the registry then does not collect when we register."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics of all engines."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from windlass.lookahead import counts

        engines = list(counts.read(self._directory))
        for name, meaning in counts.MEANINGS.items():
            family = CounterMetricFamily if name in counts.TOTALS else GaugeMetricFamily
            metric = family(f"windlass_lookahead_{name}", f"Lookahead cache: {meaning}.", labels=["engine"])
            for engine, found in engines:
                metric.add_metric([engine], found.value(name))
            yield metric
