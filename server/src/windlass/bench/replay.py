"""Walks recorded text as greedy decoding would: a draft is accepted as far as it says what the record says.

The first token of an output comes with the prefill; steps and tokens are counted from the second on.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from windlass.bench.drafters import Drafter

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """A request as token ids. `repeated`: it came before with the same output."""

    prompt: list[int]
    output: list[int]
    repeated: bool = False


@dataclass(slots=True)
class Tally:
    """What one drafter did on one workload."""

    requests: int = 0
    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    propose_ns: list[int] = field(default_factory=list)
    update_ns: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in another tally."""
        self.requests += other.requests
        self.tokens += other.tokens
        self.steps += other.steps
        self.drafted += other.drafted
        self.accepted += other.accepted
        self.propose_ns += other.propose_ns
        self.update_ns += other.update_ns


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report; None: the drafter's package is not installed. `*_us_*` are microseconds a request."""

    drafter: str
    workload: str
    num_speculative_tokens: int
    requests: int | None = None
    tokens: int | None = None
    steps: int | None = None
    tokens_per_step: float | None = None
    drafted_per_step: float | None = None
    acceptance: float | None = None
    propose_us_p50: float | None = None
    propose_us_p99: float | None = None
    update_us_p50: float | None = None
    memory_mib: float | None = None


def accepted_tokens(draft: Sequence[int], record: Sequence[int], at: int) -> int:
    """How many tokens of the draft the record holds from `at` on."""
    count = 0
    for token, recorded in zip(draft, record[at : at + len(draft)], strict=False):
        if token != recorded:
            break
        count += 1
    return count


def walk(drafter: Drafter, request: Request) -> Tally:
    """Decode one request."""
    tally = Tally(requests=1, tokens=len(request.output) - 1)
    drafter.start(request.prompt)
    drafter.update(request.output[:1])
    at = 1
    while at < len(request.output):
        began = time.perf_counter_ns()
        draft = drafter.propose()
        proposed = time.perf_counter_ns()
        accepted = accepted_tokens(draft, request.output, at)
        emitted = request.output[at : at + accepted + 1]
        before = time.perf_counter_ns()
        drafter.update(emitted)
        tally.update_ns.append(time.perf_counter_ns() - before)
        tally.propose_ns.append(proposed - began)
        tally.steps += 1
        tally.drafted += len(draft)
        tally.accepted += accepted
        at += len(emitted)
    drafter.stop()
    return tally


def warm_up(drafter: Drafter, requests: Iterable[Request]) -> None:
    """Let earlier requests pass without drafts."""
    for request in requests:
        drafter.start(request.prompt)
        drafter.update(request.output)
        drafter.stop()


def replay(
    make: Callable[[], Drafter], warm: Sequence[Request], requests: Sequence[Request]
) -> tuple[Tally, Tally, float]:
    """All requests, in order, through a fresh drafter: the tally, that of the repeated requests, memory in MiB."""
    drafter = make()
    warm_up(drafter, warm)
    total, repeated = Tally(), Tally()
    for request in requests:
        if len(request.output) < 2:
            continue
        tally = walk(drafter, request)
        total.add(tally)
        if request.repeated:
            repeated.add(tally)
    return total, repeated, drafter.memory_mib()


def row(drafter: str, workload: str, limit: int, tally: Tally, memory_mib: float) -> Row:
    """The report of a tally."""
    steps = max(tally.steps, 1)
    return Row(
        drafter=drafter,
        workload=workload,
        num_speculative_tokens=limit,
        requests=tally.requests,
        tokens=tally.tokens,
        steps=tally.steps,
        tokens_per_step=round(tally.tokens / steps, 4),
        drafted_per_step=round(tally.drafted / steps, 4),
        acceptance=round(tally.accepted / tally.drafted, 4) if tally.drafted else 0.0,
        propose_us_p50=percentile_us(tally.propose_ns, 50),
        propose_us_p99=percentile_us(tally.propose_ns, 99),
        update_us_p50=percentile_us(tally.update_ns, 50),
        memory_mib=round(memory_mib, 1),
    )


def percentile_us(times_ns: Sequence[int], percent: int) -> float:
    """A percentile of times, in microseconds; 0 of nothing."""
    if len(times_ns) < 2:
        return round(times_ns[0] / NS_PER_US, 2) if times_ns else 0.0
    return round(statistics.quantiles(times_ns, n=100, method="inclusive")[percent - 1] / NS_PER_US, 2)
