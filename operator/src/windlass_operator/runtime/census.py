"""Counts the LLMServices that the watch brings: each one's state and reason, and how long they waited.

A service has one series at a time, so there are as many as there are LLMServices; it goes with the service.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass_operator.cluster.store import Place
from windlass_operator.runtime import metrics
from windlass_operator.status.waits import Standing, Tracked, first


@dataclass
class Census:
    """All LLMServices by place; `at_work` says whether this replica leads: a stand-by observes no wait."""

    at_work: Callable[[], bool]
    clock: Callable[[], float] = time.time
    tracked: dict[Place, Tracked] = field(default_factory=dict)

    def see(self, place: Place, item: Mapping[str, Any]) -> None:
        """A version of the service came."""
        now, at_s, before = Standing.of(item), self.clock(), self.tracked.get(place)
        if before is not None and before.standing == now:
            return
        self._show(place, before.standing if before else None, now)
        if before is None:
            self.tracked[place] = first(now, at_s)
            return
        self.tracked[place], ended = before.next(now, at_s)
        for wait, seconds in ended.items() if self.at_work() else ():
            metrics.LLMSERVICE_WAIT_SECONDS.labels(wait).observe(seconds)

    def forget(self, place: Place) -> None:
        """The service is gone, and its series with it."""
        before = self.tracked.pop(place, None)
        self._show(place, before.standing if before else None, None)

    def _show(self, place: Place, before: Standing | None, now: Standing | None) -> None:
        old, new = before.reason if before else None, now.reason if now else None
        if old is not None and old != new:
            metrics.LLMSERVICES.labels(old).dec()
            metrics.LLMSERVICE_READY.remove(*place, old)
        if new is not None and old != new:
            metrics.LLMSERVICES.labels(new).inc()
        if now is not None:
            metrics.LLMSERVICE_READY.labels(*place, now.reason).set(now.ready)
