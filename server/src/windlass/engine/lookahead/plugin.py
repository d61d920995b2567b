"""vLLM's entry point `vllm.general_plugins`: shows the cache's counts at the API's /metrics.

vLLM calls `register` in every process; only that of the API has a page of metrics, and a process without lookahead
is left as it is. With several API processes vLLM makes a registry of their files for each page: it gets the collector
too, which reads the same counts whatever process is asked.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from windlass.engine.lookahead import settings

SEVERAL_PROCESSES = "PROMETHEUS_MULTIPROC_DIR"
"""Set by vLLM in each of several API processes."""

if TYPE_CHECKING:
    from prometheus_client.core import Metric


@functools.cache
def register() -> None:
    """Add the collector, once a process."""
    known = settings.read(os.environ)
    if known is None or not known.counts_dir:
        return
    from prometheus_client import REGISTRY

    collector = Collector(Path(known.counts_dir))
    REGISTRY.register(collector)
    if os.environ.get(SEVERAL_PROCESSES):
        _join(collector)


def _join(collector: Collector) -> None:
    """Add the collector to each registry that collects the files of several processes."""
    from prometheus_client import CollectorRegistry, multiprocess

    class WithCounts(multiprocess.MultiProcessCollector):
        def __init__(self, registry: CollectorRegistry, path: str | None = None) -> None:
            super().__init__(registry, path)  # type: ignore[no-untyped-call]
            registry.register(collector)

    multiprocess.MultiProcessCollector = WithCounts  # type: ignore[misc]  # vLLM takes it from the module


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

        from windlass.engine.lookahead import counts

        engines = list(counts.read(self._directory))
        for name, meaning in counts.MEANINGS.items():
            family = CounterMetricFamily if name in counts.TOTALS else GaugeMetricFamily
            metric = family(f"windlass_lookahead_{name}", f"Lookahead cache: {meaning}.", labels=["engine"])
            for engine, found in engines:
                metric.add_metric([engine], found.value(name))
            yield metric
