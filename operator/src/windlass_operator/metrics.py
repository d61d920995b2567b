"""The operator's Prometheus metrics, one place, served on the metrics port by `__main__`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

RECONCILE_SECONDS = Histogram(
    "windlass_reconcile_seconds",
    "Time of one reconcile of one LLMService.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RECONCILE_ERRORS = Counter("windlass_reconcile_errors_total", "Reconciles that ended in an error and are retried.")
WRITES = Counter("windlass_writes_total", "Requests that change something in the API server.", ["kind", "verb"])
QUEUE_DEPTH = Gauge("windlass_queue_depth", "LLMServices with a reconcile ahead, now or later.")


def writes_total() -> float:
    """All writes so far, over all kinds and verbs; tests assert that it stands still."""
    return sum(
        sample.value for family in WRITES.collect() for sample in family.samples if sample.name.endswith("_total")
    )
