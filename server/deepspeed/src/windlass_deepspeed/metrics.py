"""The figures of `GET /metrics`. One registry a server, so that tests can run many side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
SECONDS_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
PREFIX = "windlass_deepspeed"


class Metrics:
    """Counts what the batcher and the API tell it."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        made = self._registry
        self.requests = Counter(
            f"{PREFIX}_requests",
            "Requests by how they ended: stop, length, gone or error.",
            ("outcome",),
            registry=made,
        )
        self.batch_size = Histogram(
            f"{PREFIX}_batch_size", "Requests that share one pass of the model.", buckets=BATCH_BUCKETS, registry=made
        )
        self.prompt_tokens = Counter(f"{PREFIX}_prompt_tokens", "Tokens read.", registry=made)
        self.generation_tokens = Counter(f"{PREFIX}_generation_tokens", "Tokens written.", registry=made)
        self.first_token_s = Histogram(
            f"{PREFIX}_time_to_first_token_seconds",
            "From the arrival of a request to its first token.",
            buckets=SECONDS_BUCKETS,
            registry=made,
        )
        self.joined = Counter(
            f"{PREFIX}_joined", "Requests that each engine took into its batch.", ("engine",), registry=made
        )
        self._engine = Info(f"{PREFIX}_engine", "What computes the model.", registry=made)

        self._running: list[Callable[[], int]] = []
        self._waiting: list[Callable[[], int]] = []
        for name, text, reads in (
            ("requests_running", "Requests in the batch.", self._running),
            ("requests_waiting", "Requests that wait for the batch.", self._waiting),
        ):
            Gauge(f"{PREFIX}_{name}", text, registry=made).set_function(partial(_sum, reads))

    def watch(self, running: Callable[[], int], waiting: Callable[[], int]) -> None:
        """Read these of one engine's batcher at every scrape."""
        self._running.append(running)
        self._waiting.append(waiting)

    def describe(self, facts: dict[str, str]) -> None:
        """Labels of the engine: its class, version, number format, GPUs."""
        self._engine.info(facts)

    def text(self) -> bytes:
        """Prometheus' text format."""
        return generate_latest(self._registry)


def _sum(reads: Iterable[Callable[[], int]]) -> float:
    return float(sum(read() for read in reads))
