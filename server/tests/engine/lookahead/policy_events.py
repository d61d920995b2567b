"""Recorded inputs of the speculation policy and its decisions; as a program it records them again from recorded text.

    python server/tests/engine/lookahead/policy_events.py

The real cache drafts on the traces of benchmarks/lookahead. Times are computed from the number of the step, so a
recording needs no clock. Each event stands beside the decision that the policy made.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass_lookahead import LookaheadCache, Options
from windlass_lookahead.policy import DEFAULTS, Config, SpeculationPolicy, drafts_to_plan

RECORDING = Path(__file__).with_name("policy_decisions.json.gz")
TRACES = Path(__file__).resolve().parents[4] / "benchmarks/lookahead/traces"
MOST = 6
Event = list[Any]


class Replay:
    """Calls the policy as the round trip does, event by event."""

    def __init__(self, max_drafts: int, numbers: Config = DEFAULTS) -> None:
        self.policy = SpeculationPolicy(max_drafts, dict(numbers))
        self.tokens: dict[str, float] = {}

    def decide(self, event: Event) -> Any:
        """The decision on one event."""
        return getattr(self, event[0])(*event[1:])

    def begin(self, request: str) -> list[float]:
        self.tokens[request] = tokens = self.policy.new_request_tokens()
        return [round(tokens, 4), self.policy.draft_budget(tokens)]

    def finish(self, request: str) -> None:
        self.tokens.pop(request, None)
        self.policy.finish(request)

    def abandon(self, request: str) -> None:
        self.tokens.pop(request, None)
        self.policy.abandon(request)

    def step(self, period_us: float, late: bool, decoding: bool, wanted: bool, verified: int, drafts: Event) -> Event:
        """One step with the drafts [request, survivals] of its rows; awaited rows, budgets and the mean step."""
        policy, rows = self.policy, [request for request, _ in drafts]
        policy.doorbell(period_us, late, len(rows))
        known = [(request, survivals) for request, survivals in drafts if request in self.tokens]
        awaited = [wanted and policy.is_awaited(self.tokens[request]) for request, _ in known]
        order = sorted(range(len(known)), key=lambda row: not awaited[row])
        for request, survivals in (known[row] for row in order):
            self.tokens[request] = policy.expected_tokens(self.tokens[request], survivals)
        policy.completed(len(rows), decoding, wanted, verified)
        for request, survivals in (known[row] for row in order):
            policy.drafted(request, survivals, self.tokens[request])
        policy.update_planning(rows, decoding)
        budgets = [policy.draft_budget(self.tokens[request]) for request, _ in known]
        return ["".join("01"[one] for one in awaited), budgets, round(policy.step_us, 2)]

    def verify(self, rows: list[str], planned: list[int], costs: list[float], *more: Any) -> int:
        """Costs are [milliseconds without drafts, for each draft, numbers]."""
        first_ms, each_ms, count = costs
        table = [first_ms + each_ms * drafts for drafts in range(int(count))]
        return self.policy.drafts_to_verify(rows, planned, table, *more)


@dataclass(frozen=True, slots=True)
class Scene:
    """One engine's batch on recorded text."""

    name: str
    batch: int
    requests: int
    draft_ms: float
    """What a draft adds to a step of three milliseconds, by the engine's table."""
    host: float = 1.0
    """Times as long as the table says."""
    planning: float = 0.0
    """Share by which planned drafts prolong a step."""
    quiet_from: int = 10**6
    """Step from which planning costs nothing any more."""


SCENES = (
    Scene("templated", 1, 3, 0.01),
    Scene("templated", 4, 12, 0.05, host=1.3),
    Scene("humaneval", 10, 20, 0.012),
    Scene("gsm8k", 10, 20, 0.04, host=1.2, planning=0.1),
    Scene("gsm8k", 20, 28, 0.02, host=1.4, planning=0.3, quiet_from=90),
    Scene("humaneval", 24, 34, 0.03, planning=0.15, quiet_from=120),
    Scene("repeat-50", 28, 34, 0.012, host=1.1),
    Scene("templated", 18, 24, 0.06, host=1.5, planning=0.2),
)
STEPS_MAX = 160


@dataclass(slots=True)
class Row:
    """One request under way."""

    name: str
    text: list[int]
    at: int = 0
    drafts: list[int] = field(default_factory=list)
    planned: int = 0


class Recorder:
    """Runs a scene and keeps every event with its decision."""

    def __init__(self, scene: Scene, exchanges: list[tuple[list[int], list[int]]]) -> None:
        self.scene, self.waiting = scene, list(exchanges)
        self.cache = LookaheadCache(Options(voc_size=200_000, cache_size=50_000, copy_length=MOST, num_threads=1))
        self.replay, self.kept = Replay(MOST), []
        self.rows: list[Row] = []
        self.budgets: dict[str, int] = {}
        self.budget = self.number = 0
        self.had_plans = True

    def keep(self, *event: Any) -> Any:
        """Decide on an event and keep both."""
        self.kept.append([list(event), decision := self.replay.decide(list(event))])
        return decision

    def run(self) -> list[Event]:
        """All events of the scene."""
        while (self.rows or self.waiting) and self.number < STEPS_MAX:
            self.number += 1
            self._step()
        return self.kept

    def _step(self) -> None:
        came = self._arrive()
        wanted = any(self.budgets[row.name] for row in self.rows)
        drafts, verified = self._draft()
        period_us = self._period_us(verified)
        self.had_plans = wanted
        step = (period_us, self.number % 13 == 0, not came, wanted, verified, drafts)
        _, budgets, _ = self.keep("step", *step)
        self.budgets |= dict(zip((row.name for row in self.rows if row.name in self.budgets), budgets, strict=True))
        if self.number % 53 == 0 and len(self.rows) > 1:
            self.keep("abandon", self.rows[0].name)
            self.rows.pop(0)
        for row in [row for row in self.rows if row.at >= len(row.text)]:
            self.rows.remove(row)
            self.keep("finish", row.name)
        self._choose(is_full=self.number % 7 == 0)

    def _arrive(self) -> bool:
        came = False
        while self.waiting and len(self.rows) < self.scene.batch:
            prompt, output = self.waiting.pop(0)
            row = Row(f"r{len(self.waiting)}", output[:60])
            self.cache.begin(row.name, prompt[-300:])
            self.rows.append(row)
            self.budgets[row.name] = int(self.keep("begin", row.name)[1])
            came = True
        return came

    def _draft(self) -> tuple[list[Event], int]:
        verified, left = 0, self.budget
        for row in self.rows:
            tried = row.drafts[: min(row.planned, left)]
            left, verified, hits = left - len(tried), verified + len(tried), 0
            while hits < len(tried) and row.at + hits < len(row.text) and tried[hits] == row.text[row.at + hits]:
                hits += 1
            emitted = row.text[row.at : row.at + hits + 1]
            row.at += len(emitted)
            self.cache.accept([row.name], [emitted])
        names = [row.name for row in self.rows]
        found = self.cache.propose(names, [MOST] * len(names))
        for row, draft in zip(self.rows, found, strict=True):
            row.drafts = draft.tokens
        drafts = zip(names, found, strict=True)
        return [[name, [round(one, 4) for one in draft.probabilities]] for name, draft in drafts], verified

    def _period_us(self, verified: int) -> float:
        scene, number = self.scene, self.number
        slow = scene.host * (1 + scene.planning * (self.had_plans and number < scene.quiet_from))
        jitter = 1 + 0.02 * (number % 5) + 6 * (number % 17 == 0) + 3 * (verified > 0 and number % 19 == 0)
        return round(1000 * (3 + scene.draft_ms * verified) * slow * jitter + 80 * scene.host * (verified > 0), 1)

    def _choose(self, *, is_full: bool) -> None:
        for row in self.rows:
            row.planned = drafts_to_plan(self.budgets[row.name], MOST, is_full=is_full)
        planned, rows = [row.planned for row in self.rows], len(self.rows)
        costs = [3.0, self.scene.draft_ms, sum(planned) + 1]
        behind = 2 if self.number % 11 == 0 else self.number % 2
        decoding = self.number % 23 != 0
        names = [row.name for row in self.rows]
        self.budget = self.keep("verify", names, planned, costs, rows if decoding else rows // 2, decoding, behind)


def scenes() -> Iterator[tuple[Scene, list[Event]]]:
    """Every scene, recorded."""
    from windlass.bench import tokens, traces

    encode = tokens.tokenizer("pieces")
    for scene in SCENES:
        found = [row for row in traces.read(TRACES / f"{scene.name}.jsonl.gz") if row.output][: scene.requests]
        yield scene, Recorder(scene, [(encode(row.prompt), encode(row.output)) for row in found]).run()


def main() -> None:
    """Write the recording."""
    recorded = [{"name": f"{scene.name} at {scene.batch}", "events": events} for scene, events in scenes()]
    RECORDING.write_bytes(gzip.compress(json.dumps(recorded, separators=(",", ":")).encode(), mtime=0))
    decisions = sum(len(one["events"]) for one in recorded)
    print(f"{len(recorded)} sequences, {decisions} events, {RECORDING.stat().st_size} bytes")


if __name__ == "__main__":
    main()
