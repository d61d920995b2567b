"""The operator's ports: `/healthz` for the kubelet; `/readyz`, which says whether it works, beside `/metrics`.

`judge` is pure. All answers are made on the event loop: one that hangs does not answer. Whoever reaches the pod reaches
the ports, so connections, requests and what an answer costs are bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from windlass_base.front.beside import SMALL, Answer, serving
from windlass_base.front.connection import raise_file_limit

QUEUE_OLD_S = 30.0
WATCH_PATIENCE_S = 30.0
METRICS_S = 1.0
"""Metrics are written out no more often, however often they are asked for."""
UNAVAILABLE = 503
OWN_FILES = 512
"""Open files beside the connections of both ports: watches, pods' facts, planners."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Health:
    """What is asked: the watches that do not live, by kind with the reason, and the age of the oldest due key."""

    watches: Mapping[str, str]
    oldest_s: float


def judge(health: Health) -> list[str]:
    """Why the operator is not ready; nothing when it is."""
    wrong = [f"watch of {kind}: {why}" for kind, why in sorted(health.watches.items())]
    if health.oldest_s > QUEUE_OLD_S:
        wrong.append(f"queue: an LLMService has waited {health.oldest_s:.0f} s for its reconcile")
    return wrong


@asynccontextmanager
async def serve(health_port: int, metrics_port: int, look: Callable[[], Health]) -> AsyncIterator[None]:
    """Answer `/healthz` on the one port, `/readyz` and `/metrics` on the other; 0 serves nothing."""

    def ready() -> Answer:
        wrong = judge(look())
        return Answer("".join(f"{line}\n" for line in wrong or ["ok"]), UNAVAILABLE if wrong else 200)

    raise_file_limit(replace(SMALL, connections=2 * SMALL.connections + OWN_FILES), log.warning)
    async with AsyncExitStack() as stack:
        if health_port:
            await stack.enter_async_context(serving(health_port, {"/healthz": lambda: Answer("ok\n")}))
        if metrics_port:
            paths = {"/readyz": ready, "/metrics": Metrics().answer}
            await stack.enter_async_context(serving(metrics_port, paths))
        yield


class Metrics:
    """All metrics as text, at most METRICS_S old."""

    def __init__(self) -> None:
        """Nothing is written out yet."""
        self._answer: Answer | None = None
        self._until_s = 0.0

    def answer(self) -> Answer:
        """Write them out, unless that was done just now."""
        now_s = asyncio.get_running_loop().time()
        if self._answer is None or now_s >= self._until_s:
            self._answer = Answer(generate_latest().decode(), content_type=CONTENT_TYPE_LATEST)
            self._until_s = now_s + METRICS_S
        return self._answer
