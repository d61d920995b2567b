"""The operator's Prometheus metrics, one place, served on the metrics port by `health.py`."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from windlass_operator.status.waits import KINDS

RECONCILE_SECONDS = Histogram(
    "windlass_reconcile_seconds",
    "Time of one reconcile of one LLMService.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
RECONCILE_ERRORS = Counter("windlass_reconcile_errors_total", "Reconciles that ended in an error and are retried.")
WRITES = Counter("windlass_writes_total", "Requests that change something in the API server.", ["kind", "verb"])
QUEUE_WAIT_SECONDS = Histogram(
    "windlass_queue_wait_seconds",
    "Time from when an LLMService is due for its reconcile to when a worker begins it.",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
QUEUE_DEPTH = Gauge("windlass_queue_depth", "LLMServices with a reconcile ahead, now or later.")

QUEUE_OLDEST_SECONDS = Gauge(
    "windlass_queue_oldest_seconds", "How long the LLMService that waits longest for its reconcile has been due."
)
EVENT_TO_APPLY_SECONDS = Histogram(
    "windlass_event_to_apply_seconds",
    "Time from an event of the API server to the end of the reconcile that answered it.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600, 3600),
)
LLMSERVICES = Gauge(
    "windlass_llmservices",
    "LLMServices by the reason of their condition Ready; each replica counts all, so take the maximum.",
    ["reason"],
)
LLMSERVICE_READY = Gauge(
    "windlass_llmservice_ready",
    "1 while the LLMService is Ready, 0 while not; one series for each, by its present reason, gone with it. "
    "Each replica has all, so take the maximum.",
    ["namespace", "name", "reason"],
)
LLMSERVICE_WAIT_SECONDS = Histogram(
    "windlass_llmservice_wait_seconds",
    "Waits of LLMServices that are over, counted by the replica that leads: `created` from the creation to Ready, "
    "`edited` from an edit of the spec, scaling included, to Ready with nothing under way, `gpus` for GPUs, "
    "`license` for a license.",
    ["wait"],
    buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400),
)
for _wait in KINDS:  # a rate needs a first sample of 0
    LLMSERVICE_WAIT_SECONDS.labels(_wait)
WATCH_ALIVE = Gauge("windlass_watch_alive", "1 while the watch of a kind has its list and hears from it.", ["kind"])
WATCH_HEARD = Gauge(
    "windlass_watch_last_event_timestamp_seconds", "When the API server last said anything of a kind.", ["kind"]
)
LEADER = Gauge("windlass_leader", "1 on the replica that holds the lease and writes, 0 on a stand-by.")
CRD_FIELDS = Gauge(
    "windlass_crd_mismatch_fields",
    "Fields of this operator that the CRD in the cluster lacks (missing: the CRD is older), and fields of the CRD that "
    "this operator does not know (unknown: it is newer).",
    ["fields"],
)
BUILD = Gauge(
    "windlass_build_info", "1; the labels name the version of the operator and of Python.", ["version", "python"]
)


def count_write(kind: str, verb: str) -> None:
    """One write is about to go out."""
    WRITES.labels(kind, verb).inc()


def writes_total() -> float:
    """All writes so far, over all kinds and verbs; tests assert that it stands still."""
    return sum(
        sample.value for family in WRITES.collect() for sample in family.samples if sample.name.endswith("_total")
    )
