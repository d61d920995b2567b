"""The server's side of a load: its counters, what runs and waits, the memory of its processes; and whether all agrees.

The checks are functions of values. Only `read` asks the server, and only `memory_mib` looks at this machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import aiohttp
from asking import Outcome

SAMPLE = re.compile(r"^([\w:]+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
NAMES = {
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "ended": "vllm:request_success_total",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "engine_queue_s": "vllm:request_queue_time_seconds_sum",
    "guard_running": "windlass_api_requests_running",
    "guard_waiting": "windlass_api_requests_waiting",
    "guard_waits": "windlass_api_wait_seconds_count",
    "guard_wait_s": "windlass_api_wait_seconds_sum",
}
MEMORY_GROWTH = 0.05


@dataclass(frozen=True, slots=True)
class Books:
    """The counters of the engines, summed, and of the guard."""

    prompt_tokens: float
    generation_tokens: float
    ended: float
    running: float
    waiting: float
    engine_queue_s: float
    guard_running: float
    guard_waiting: float
    guard_waits: float
    guard_wait_s: float

    @property
    def busy(self) -> float:
        """Requests that somebody still works on or waits for."""
        return self.running + self.waiting + self.guard_running + self.guard_waiting

    def minus(self, before: Books) -> Books:
        """What happened since."""
        return Books(*(getattr(self, field.name) - getattr(before, field.name) for field in fields(self)))


async def read(http: aiohttp.ClientSession) -> Books:
    """The counters now."""
    texts = []
    for path in ("/metrics", "/windlass/metrics"):
        async with http.get(path) as answer:
            answer.raise_for_status()
            texts.append(await answer.text())
    samples = SAMPLE.findall("\n".join(texts))
    return Books(**{ours: sum(float(value) for name, value in samples if name == wanted)
                    for ours, wanted in NAMES.items()})  # fmt: skip


def memory_mib(pid: int) -> float:
    """Proportional memory of a process and all its descendants: shared pages are counted once."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it ended meanwhile
        children.setdefault(int(words[1]), []).append(int(stat.parent.name))
    left, total_kib = [pid], 0
    while left:
        one = left.pop()
        left += children.get(one, [])
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{one}/smaps_rollup").read_text(), re.MULTILINE)
        total_kib += int(found[1]) if found else 0
    return total_kib / 1024


def mistakes(outcomes: Sequence[Outcome], moved: Books, *, refusals: bool) -> list[str]:
    """What is wrong with a round: answers that were not, and counters that say another thing than the answers."""
    wrong = [f"{len(found)} × {words}" for words, found in _faults(outcomes, refusals=refusals).items()]
    served = [outcome for outcome in outcomes if outcome.status == 200]
    whole = [outcome for outcome in served if outcome.complete]
    left = [outcome for outcome in served if outcome.left]
    prompts = sum(outcome.prompt_tokens for outcome in served)
    if moved.prompt_tokens != prompts:
        wrong.append(f"the engine counted {moved.prompt_tokens:.0f} prompt tokens, the answers {prompts}")
    exact = sum(outcome.completion_tokens for outcome in whole)
    least = exact + sum(outcome.completion_tokens for outcome in left)
    most = exact + sum(outcome.ask.tokens for outcome in left)
    if not least <= moved.generation_tokens <= most:
        wrong.append(f"the engine counted {moved.generation_tokens:.0f} generated tokens, not {least} to {most}")
    return wrong


def _faults(outcomes: Sequence[Outcome], *, refusals: bool) -> dict[str, list[Outcome]]:
    """Outcomes that are none of: whole, left on purpose, refused as documented."""
    faults: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        refused = refusals and outcome.status in (429, 503) and outcome.retry_after.isdigit()
        if not (outcome.complete or outcome.left or refused):
            faults.setdefault(outcome.problem, []).append(outcome)
    return faults


def still_busy(now: Books) -> list[str]:
    """A place that nobody freed."""
    return [f"{now.busy:.0f} requests still run or wait after the last client has left"] if now.busy else []


def grown(before_mib: float, after_mib: float) -> list[str]:
    """Memory that did not come back."""
    share = after_mib / before_mib - 1
    return [f"memory grew by {share:.1%}, more than {MEMORY_GROWTH:.0%}"] if share > MEMORY_GROWTH else []
