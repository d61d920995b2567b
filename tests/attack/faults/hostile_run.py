"""The run: draws in batches to the API server, the cluster's answers played, changes made, and what the operator did.

`fuzz` returns figures; the test judges them and prints them as a table.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from hostile_bed import GROUP, HostileBed
from hostile_cluster import MERGE, Player
from hostile_wrongs import Wrong, judged

BATCH = 75
AT_A_TIME = 8
QUIET_S = 1.5  # without a write and without anything to answer: the batch is at rest
PAUSE_S = 0.5  # the same between one change and the next
LATE_S = 3.0
TICK_S = 0.4
PROGRESS_S = 10.0
JSON_PATCH = "application/json-patch+json"


@dataclass
class Trial:
    """One draw as a service."""

    name: str
    draw: Mapping[str, Any]
    taken_at: float | None = None  # when the API server took it
    silent_s: float | None = None  # from then to the first condition
    generation: int = 0  # that the operator must have seen

    @property
    def open(self) -> bool:
        """Taken, and nothing said yet."""
        return self.taken_at is not None and self.silent_s is None


@dataclass
class Figures:
    """What became of all draws."""

    tried: int = 0
    wrong: int = 0
    accepted: int = 0
    edits: int = 0
    edits_refused: int = 0
    answered: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by the field and the words of the rule
    complaints: list[str] = field(default_factory=list)  # about refusals, and wrong specs that were taken
    silent: list[str] = field(default_factory=list)  # accepted or changed, and never spoken of
    silent_s: float = 0
    writes: list[int] = field(default_factory=list)  # of each accepted service
    late: Counter[str] = field(default_factory=Counter)  # after all had come to rest, by service
    own_refused: Counter[str] = field(default_factory=Counter)
    lies_refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)  # of Ready at the end
    errors: float = 0  # runs that ended with an exception
    unanswered: int = 0  # runs that the API server kept waiting for too long
    tracebacks: Counter[str] = field(default_factory=Counter)
    memory_mib: tuple[float, float] = (0, 0)
    alive: bool = True
    seconds: float = 0


async def fuzz(bed: HostileBed, count: int, seed: int, settle_s: float) -> Figures:
    """Everything; prints a line now and then."""
    run = Run(bed, Figures(), settle_s)
    before, begun = await bed.errors(), time.monotonic()
    memory = bed.memory_mib()
    ticking = asyncio.create_task(run.tell(count))
    try:
        async for draws in _batches(count, seed):
            trials = [Trial(f"h-{run.told.tried + index}", draw) for index, draw in enumerate(draws)]
            await run.batch(trials)
    finally:
        ticking.cancel()
    run.told.unanswered = bed.unanswered()
    run.told.errors, run.told.tracebacks = await bed.errors() - before - run.told.unanswered, bed.tracebacks()
    run.told.memory_mib, run.told.alive = (memory, bed.memory_mib()), bed.operator.poll() is None
    run.told.own_refused, run.told.lies_refused = bed.refused, run.player.refused.total()
    run.told.seconds = time.monotonic() - begun
    return run.told


async def _batches(count: int, seed: int) -> AsyncIterator[list[dict[str, Any]]]:
    """The draws as they come; they are drawn beside the run."""
    command = [sys.executable, str(Path(__file__).with_name("hostile_draws.py")), str(count), str(seed)]
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    drawing = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=env, limit=2**26)
    assert drawing.stdout is not None
    rows: list[dict[str, Any]] = []
    while line := await drawing.stdout.readline():
        rows.append(json.loads(line))
        if len(rows) == BATCH:
            yield rows
            rows = []
    assert await drawing.wait() == 0, "the draws ended early"
    if rows:
        yield rows


@dataclass
class Run:
    """One run over all batches."""

    bed: HostileBed
    told: Figures
    settle_s: float
    player: Player = field(init=False)

    def __post_init__(self) -> None:
        self.player = Player(self.bed)

    async def batch(self, trials: list[Trial]) -> None:
        """Create, answer, change, wait for rest, look, take away."""
        gate = asyncio.Semaphore(AT_A_TIME)
        await asyncio.gather(*(self._create(one, gate) for one in trials))
        taken = [one for one in trials if one.taken_at is not None]
        await self._rest(taken, PAUSE_S)
        for number in range(max((len(one.draw["edits"]) for one in taken), default=0)):
            await asyncio.gather(*(self._edit(one, number, gate) for one in taken))
            await self._rest(taken, PAUSE_S)
        await self._rest(taken, QUIET_S)
        await self._late(taken)
        await self._taken_away()

    async def _create(self, trial: Trial, gate: asyncio.Semaphore) -> None:
        body = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "metadata": {"name": trial.name},
                "spec": trial.draw["spec"]}  # fmt: skip
        async with gate:
            code, answer = await self.bed.send("POST", GROUP, body)
        self.told.tried += 1
        self.told.wrong += trial.draw["wrong"] is not None
        if self._was_taken(trial.name, code, answer, trial.draw["wrong"]):
            trial.taken_at, trial.generation = time.monotonic(), answer["metadata"]["generation"]
            self.told.accepted += 1

    def _was_taken(self, name: str, code: int, answer: Mapping[str, Any], wrong: Mapping[str, str] | None) -> bool:
        if code < httpx2.codes.BAD_REQUEST:
            if wrong is not None:
                self.told.complaints.append(f"{name} was taken: {wrong}")
            return True
        self.told.refused[_rule(answer)] += 1
        if complaint := judged(code, answer, Wrong(**wrong) if wrong else None):
            self.told.complaints.append(f"{name}: {complaint}")
        return False

    async def _edit(self, trial: Trial, number: int, gate: asyncio.Semaphore) -> None:
        if number >= len(trial.draw["edits"]):
            return
        edit = trial.draw["edits"][number]
        body = [{"op": "replace", "path": "/spec", "value": edit["spec"]}]
        async with gate:
            code, answer = await self.bed.send("PATCH", f"{GROUP}/{trial.name}", body, JSON_PATCH)
            if edit["note"]:
                await self.bed.send(
                    "PATCH", f"{GROUP}/{trial.name}", {"metadata": {"annotations": edit["note"]}}, MERGE
                )
        self.told.edits += 1
        if self._was_taken(trial.name, code, answer, edit["wrong"]):
            trial.generation = answer["metadata"]["generation"]
        else:
            self.told.edits_refused += 1

    async def _rest(self, taken: list[Trial], quiet_s: float) -> None:
        """Answer what comes until the operator has seen everything and writes nothing more."""
        draws = {one.name: one.draw for one in taken}
        deadline, moved = time.monotonic() + self.settle_s, time.monotonic()
        while time.monotonic() < deadline:
            behind = await self._look(taken)
            played = await self.player.play(draws)
            self.told.answered += played
            wrote = self.bed.audit()
            if behind or played or wrote:
                moved = time.monotonic()
            elif time.monotonic() - moved > quiet_s:
                return
            await asyncio.sleep(TICK_S)  # clock: how often it looks
        self.told.silent += [f"{one.name}: {json.dumps(one.draw['spec'])[:300]}" for one in await self._look(taken)]

    async def _look(self, taken: list[Trial]) -> list[Trial]:
        """Those that the operator has not spoken of since their last change."""
        rows = {row["metadata"]["name"]: row.get("status") or {} for row in await self.bed.items(GROUP)}
        for one in taken:
            if one.open and rows.get(one.name, {}).get("conditions"):
                one.silent_s = time.monotonic() - (one.taken_at or 0)
                self.told.silent_s = max(self.told.silent_s, one.silent_s)
        return [one for one in taken if rows.get(one.name, {}).get("observedGeneration") != one.generation]

    async def _late(self, taken: list[Trial]) -> None:
        before = Counter(self.bed.writes)
        await asyncio.sleep(LATE_S)  # clock: what comes late is still seen
        self.bed.audit()
        self.told.late += self.bed.writes - before
        for row in await self.bed.items(GROUP):
            ready = [one["reason"] for one in (row.get("status") or {}).get("conditions", ()) if one["type"] == "Ready"]
            self.told.reasons[ready[0] if ready else "nothing"] += 1
        self.told.writes += [self.bed.writes[one.name] for one in taken]

    async def _taken_away(self) -> None:
        await self.bed.send("DELETE", GROUP)
        async with asyncio.timeout(120):
            while await self.bed.items(GROUP):  # noqa: ASYNC110 - another process takes them away
                await asyncio.sleep(0.2)  # clock: how often it looks
        await self.player.swept()

    async def tell(self, count: int) -> None:
        """A line now and then."""
        begun, told = time.monotonic(), self.told
        while True:
            await asyncio.sleep(PROGRESS_S)  # clock: how often it prints
            print(f"{time.monotonic() - begun:5.0f} s: {told.tried} of {count} tried, {told.accepted} accepted, "
                  f"{told.edits} changes, {told.answered} answers, {len(told.complaints)} bad refusals, "
                  f"{len(self.bed.tracebacks())} kinds of exception", flush=True)  # fmt: skip


def _rule(answer: Mapping[str, Any]) -> str:
    """The field without indices, and the words of the first refusal, without values."""
    causes = [row for row in (answer.get("details") or {}).get("causes") or () if row.get("field") != "<nil>"]
    if not causes:
        return str(answer.get("message"))[:100]
    words = str(causes[0]["message"]).rpartition('": ')[2].rpartition(" in body ")[2]
    field_ = re.sub(r"\[\d+\]", "[]", str(causes[0]["field"]))
    return f"{field_}: {words[:90]}"
