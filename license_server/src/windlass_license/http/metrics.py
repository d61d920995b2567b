"""The figures of `GET /metrics`. One registry a server, so that tests can run many side by side."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from windlass_license.rules.model import Verdict
from windlass_license.service import Standing

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 256)
_DAY_S = 86400


class _StandingCollector(Collector):
    """Gauges read from the service at the moment of the scrape; a stand-by shows that it is one and no more."""

    def __init__(self, read: Callable[[], Standing | None], turned_away: Mapping[str, int]) -> None:
        self._read, self._turned_away = read, turned_away

    def collect(self) -> Iterable[Metric]:
        text = "Connections that a limit refused or ended: peer and total by number, rate by requests a second, time."
        counts = CounterMetricFamily("windlass_license_turned_away", text, labels=("limit",))
        for limit, count in self._turned_away.items():
            counts.add_metric((limit,), count)
        return [*self._gauges(), counts]

    def _gauges(self) -> Iterable[Metric]:
        now = self._read()
        rows = [("active", "1 on the replica that answers, 0 on a stand-by.", float(now is not None))]
        rows.extend(_figures(now) if now is not None else ())
        return [GaugeMetricFamily(f"windlass_license_{name}", text, value) for name, text, value in rows]


def _figures(now: Standing) -> Iterable[tuple[str, str, float]]:
    license_ = now.license
    licensed, limit = (len(license_.gpus), license_.limit) if license_ else (0, 0)
    expires = license_.expires_last.timestamp() if license_ else 0
    days = (expires - now.now.timestamp()) / _DAY_S if license_ else 0
    return (
        ("gpus_licensed", "GPUs named by the license in force; 0 without one.", licensed),
        ("gpus_limit", "GPUs that may be in use at a time; 0 is no limit.", limit),
        ("gpus_live", "Distinct GPUs in use by live leases.", now.gpus_live),
        ("leases_live", "Live leases.", now.leases),
        ("expiry_timestamp_seconds", "When the license in force ends, in Unix time; 0 without one.", expires),
        ("expiry_days", "Days until the license in force ends, negative after it; 0 without one.", days),
        ("clock_behind_seconds", "How far the clock was set back.", now.clock_behind.total_seconds()),
    )


class Metrics:
    """Counts requests by outcome and reads the rest from the service."""

    def __init__(self, read: Callable[[], Standing | None], turned_away: Mapping[str, int]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_StandingCollector(read, turned_away))
        self._leases = Counter(
            "windlass_license_lease_requests",
            "Lease requests: grants, renewals, and refusals by reason.",
            ("state", "reason"),
            registry=self._registry,
        )
        self._uploads = Counter(
            "windlass_license_uploads",
            "Uploads: accepted, or the reason of the refusal.",
            ("outcome",),
            registry=self._registry,
        )
        self._lease_seconds = self._histogram("lease_seconds", "Time to decide and store one lease request.")
        self._commit_seconds = self._histogram("commit_seconds", "Time to make one batch of requests durable.")
        self._commit_size = self._histogram("commit_requests", "Requests that shared one commit.", _BATCHES)

    def count_lease(self, verdict: Verdict, seconds: float) -> None:
        """One more lease request with this outcome, answered after so long."""
        self._leases.labels(verdict.state, verdict.reason or "").inc()
        self._lease_seconds.observe(seconds)

    def count_upload(self, outcome: str) -> None:
        """One more upload: `accepted` or the reason of its refusal."""
        self._uploads.labels(outcome).inc()

    def observe_commit(self, requests: int, seconds: float) -> None:
        """One more batch."""
        self._commit_size.observe(requests)
        self._commit_seconds.observe(seconds)

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] = _BUCKETS_S) -> Histogram:
        return Histogram(f"windlass_license_{name}", text, buckets=buckets, registry=self._registry)
