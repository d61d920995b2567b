"""The figures of `GET /metrics`. One registry a server, so that tests can run many side by side."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from windlass_license.model import Verdict
from windlass_license.service import Standing

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class _StandingCollector(Collector):
    """Gauges read from the service at the moment of the scrape."""

    def __init__(self, read: Callable[[], Standing]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        now = self._read()
        license_ = now.license
        expires = license_.expires_last.timestamp() if license_ else 0
        rows: tuple[tuple[str, str, float], ...] = (
            (
                "gpus_licensed",
                "GPUs named by the license in force; 0 without one.",
                len(license_.gpus) if license_ else 0,
            ),
            ("gpus_limit", "GPUs that may be in use at a time; 0 is no limit.", license_.limit if license_ else 0),
            ("gpus_live", "Distinct GPUs in use by live leases.", now.gpus_live),
            ("leases_live", "Live leases.", now.leases),
            ("expiry_timestamp_seconds", "When the license in force ends, in Unix time; 0 without one.", expires),
            ("clock_behind_seconds", "How far the clock was set back.", now.clock_behind.total_seconds()),
        )
        return [GaugeMetricFamily(f"windlass_license_{name}", text, value) for name, text, value in rows]


class Metrics:
    """Counts requests by outcome and reads the rest from the service."""

    def __init__(self, read: Callable[[], Standing]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_StandingCollector(read))
        self._leases = Counter(
            "windlass_license_lease_requests",
            "Lease requests by outcome.",
            ("state", "reason"),
            registry=self._registry,
        )
        self._uploads = Counter(
            "windlass_license_uploads", "Uploads by outcome.", ("outcome",), registry=self._registry
        )
        self.lease_seconds = Histogram(
            "windlass_license_lease_seconds",
            "Time to decide and store one lease request.",
            buckets=_BUCKETS_S,
            registry=self._registry,
        )

    def count_lease(self, verdict: Verdict) -> None:
        """One more lease request with this outcome."""
        self._leases.labels(verdict.state, verdict.reason or "").inc()

    def count_upload(self, outcome: str) -> None:
        """One more upload: `accepted` or the reason of its refusal."""
        self._uploads.labels(outcome).inc()

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)
