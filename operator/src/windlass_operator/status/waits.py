"""What an LLMService waits for, and how long it did: from one version of the resource to the next. Pure.

`runtime/census.py` feeds it with what the watch brings; the time is a parameter. A wait whose begin this operator did
not see has no length, but for the first Ready, which begins with the creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass_operator.status import conditions as c

GPU_REASONS = ("NoGpuNodes", "GpuTypeNotFound", "NotEnoughGpus", "DoesNotFit", "InsufficientGpus")
NODE_REASONS = (*GPU_REASONS, "NoMatchingNode", "UntoleratedTaint")  # a change of the nodes may end these
CREATED, EDITED, GPUS, LICENSE = "created", "edited", "gpus", "license"
KINDS = (CREATED, EDITED, GPUS, LICENSE)
NEW = "New"  # no condition Ready yet


@dataclass(frozen=True, slots=True)
class Standing:
    """What one version of an LLMService says of itself; `created_s` is seconds since 1970."""

    uid: str
    generation: int
    created_s: float
    reason: str
    ready: bool
    settled: bool  # nothing is under way
    current: bool  # the status speaks of the newest spec
    gpus: bool  # it waits for GPUs
    license: bool  # a replica waits for its license

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> Standing:
        """Read it once from the resource as the API server sent it."""
        meta, status = item.get("metadata") or {}, item.get("status") or {}
        rows = {row.get("type"): row for row in status.get("conditions") or ()}
        ready, moves, licensed = (rows.get(type_) or {} for type_ in (c.READY, c.PROGRESSING, c.LICENSED))
        generation = int(meta.get("generation") or 0)
        return cls(
            uid=str(meta.get("uid") or ""),
            generation=generation,
            created_s=_seconds(str(meta.get("creationTimestamp") or "")),
            reason=str(ready.get("reason") or NEW),
            ready=ready.get("status") == c.TRUE,
            settled=moves.get("reason") == "Settled",
            current=status.get("observedGeneration") == generation,
            gpus=moves.get("reason") in GPU_REASONS,
            license=licensed.get("status") == c.FALSE,
        )

    def over(self, wait: str) -> bool:
        """Whether a wait of that kind is over: a new service answers, an edited one also has no old pod left."""
        if wait == GPUS:
            return not self.gpus
        if wait == LICENSE:
            return not self.license
        return self.ready and self.current and (wait == CREATED or self.settled)


@dataclass(frozen=True, slots=True)
class Tracked:
    """A service as it was seen last, and since when it waits for what."""

    standing: Standing
    since_s: Mapping[str, float] = field(default_factory=dict)

    def next(self, now: Standing, at_s: float) -> tuple[Tracked, dict[str, float]]:
        """The service at its next version, and the lengths of the waits that ended with it."""
        if now.uid != self.standing.uid:  # deleted and made anew
            return first(now, at_s), {}
        since = {**self.since_s, **self._begun(now, at_s)}
        if EDITED in since:
            since.pop(CREATED, None)  # what it waits for is another spec now
        ended = {wait: max(0.0, at_s - begun) for wait, begun in since.items() if now.over(wait)}
        return Tracked(now, {wait: begun for wait, begun in since.items() if wait not in ended}), ended

    def _begun(self, now: Standing, at_s: float) -> dict[str, float]:
        before = self.standing
        news = {
            EDITED: now.generation != before.generation,
            GPUS: now.gpus and not before.gpus,
            LICENSE: now.license and not before.license,
        }
        return {wait: at_s for wait, begins in news.items() if begins}


def first(now: Standing, at_s: float) -> Tracked:
    """A service that this operator sees for the first time."""
    if now.generation <= 1 and not now.ready:
        return Tracked(now, {CREATED: now.created_s or at_s})
    return Tracked(now, {} if now.current else {EDITED: at_s})


def _seconds(stamp: str) -> float:
    """RFC 3339 as seconds since 1970; 0 where there is none."""
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
