"""Load on a running server: many clients at once, slow readers among them, some that leave in the middle of an answer.

    windlass run … --limit-worker-concurrency 128 --max-waiting-requests 512 &
    python server/bench/clients.py --base-url http://127.0.0.1:8501 --pid $! --clients 500 --requests 1000

After the warm-ups three rounds of the same requests: everybody reads fast; with slow readers; with slow readers and
leavers. After each one the engine's counters must agree with what the answers said, and nothing may run or wait; after
the last one the server's memory is compared with that after the warm-ups. Exit code 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp
import books
from asking import Ask, Outcome, asks, put, session
from books import Books

IDLE_WAIT_S = 20.0
WATCH_EVERY_S = 0.5
SETTLED = 1.02
"""The engine's allocator keeps what each new shape of a batch needed; a round that adds less than this ends it."""


@dataclass(frozen=True, slots=True)
class Round:
    """What happened in one round."""

    name: str
    requests: int
    complete: int
    left: int
    refused: int
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    fast_ttft_p50_s: float
    fast_ttft_p99_s: float
    slow_ttft_p50_s: float
    mean_wait_s: float
    most_waiting: int
    prompt_tokens: int
    generated_tokens: int
    mistakes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole load."""

    clients: int
    seed: int
    rounds: tuple[Round, ...]
    before_mib: float
    after_mib: float
    mistakes: tuple[str, ...]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def summary(name: str, outcomes: Sequence[Outcome], moved: Books, seconds: float, most_waiting: int) -> Round:
    """A round's figures; tokens are the engine's count."""
    fast = [o.first_s for o in outcomes if o.first_s is not None and not o.ask.slow]
    slow = [o.first_s for o in outcomes if o.first_s is not None and o.ask.slow]
    return Round(
        name=name,
        requests=len(outcomes),
        complete=sum(o.complete for o in outcomes),
        left=sum(o.left for o in outcomes),
        refused=sum(o.status in (429, 503) for o in outcomes),
        seconds=round(seconds, 2),
        requests_per_s=round(len(outcomes) / seconds, 2),
        tokens_per_s=round(moved.generation_tokens / seconds, 1),
        fast_ttft_p50_s=round(percentile(fast, 0.5), 3),
        fast_ttft_p99_s=round(percentile(fast, 0.99), 3),
        slow_ttft_p50_s=round(percentile(slow, 0.5), 3),
        mean_wait_s=round(moved.guard_wait_s / moved.guard_waits, 3) if moved.guard_waits else 0.0,
        most_waiting=most_waiting,
        prompt_tokens=int(moved.prompt_tokens),
        generated_tokens=int(moved.generation_tokens),
        mistakes=(),
    )


class Load:
    """A server and the clients that ask it."""

    def __init__(
        self, fast: aiohttp.ClientSession, slow: aiohttp.ClientSession, clients: int, *, refusals: bool
    ) -> None:
        """Two kinds of connections; so many clients at a time."""
        self._fast, self._slow, self._clients, self._refusals = fast, slow, clients, refusals

    async def round(self, name: str, wanted: Sequence[Ask]) -> Round:
        """Every client takes the next request until there is none; then the books are compared."""
        before = await books.read(self._fast)
        watcher = asyncio.create_task(self._watch())
        began = time.perf_counter()
        outcomes = await self._ask_all(wanted)
        seconds = time.perf_counter() - began
        watcher.cancel()
        (most_waiting,) = await asyncio.gather(watcher)
        after = await self._idle()
        moved = after.minus(before)
        found = books.mistakes(outcomes, moved, refusals=self._refusals) + books.still_busy(after)
        told = summary(name, outcomes, moved, seconds, most_waiting)
        return Round(**{**asdict(told), "mistakes": tuple(found)})

    async def _ask_all(self, wanted: Sequence[Ask]) -> list[Outcome]:
        left, outcomes = iter(wanted), list[Outcome]()

        async def client() -> None:
            for ask in left:
                outcomes.append(await put(ask, self._slow if ask.slow else self._fast))

        await asyncio.gather(*(client() for _ in range(self._clients)))
        return outcomes

    async def _watch(self) -> int:
        most = 0
        try:
            while True:
                most = max(most, int((await books.read(self._fast)).guard_waiting))
                await asyncio.sleep(WATCH_EVERY_S)
        except asyncio.CancelledError:
            return most

    async def _idle(self) -> Books:
        deadline = time.monotonic() + IDLE_WAIT_S
        while (now := await books.read(self._fast)).busy and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # nobody tells another process's state
        return now


async def run(asked: argparse.Namespace) -> Report:
    """Warm-ups until memory has settled, then the rounds that are compared."""
    slow, leave = asked.slow_share, asked.leave_share
    options: dict[str, Any] = {"timeout_s": asked.timeout_s}
    async with (
        session(asked.base_url, asked.api_key, slow=False, **options) as fast_http,
        session(asked.base_url, asked.api_key, slow=True, **options) as slow_http,
    ):
        load = Load(fast_http, slow_http, asked.clients, refusals=asked.refusals)
        rounds, memory = list[Round](), list[float]()

        async def one(name: str, *shares: float) -> None:
            rounds.append(await load.round(name, asks(asked.requests, asked.seed, *shares)))
            memory.append(books.memory_mib(asked.pid))
            print(f"{name}: {rounds[-1].seconds} s, {memory[-1]:.0f} MiB", file=sys.stderr, flush=True)

        for number in range(asked.warm_ups):
            await one(f"warm-up {number + 1}", slow, leave)
            if number and memory[-1] < memory[-2] * SETTLED:
                break
        before_mib = memory[-1]
        if not asked.short:
            await one("fast", 0.0, 0.0)
            await one("slow readers", slow, 0.0)
        await one("slow and leaving", slow, leave)
    wrong = [f"{told.name}: {words}" for told in rounds for words in told.mistakes]
    wrong += books.grown(before_mib, memory[-1])
    return Report(asked.clients, asked.seed, tuple(rounds), round(before_mib, 1), round(memory[-1], 1), tuple(wrong))


def table(report: Report) -> str:
    """The figures for people: one column a round."""
    left_out = ("name", "mistakes")
    rows = [("", *(one.name for one in report.rounds))]
    names = [name for name in asdict(report.rounds[0]) if name not in left_out]
    rows += [(name, *(str(getattr(one, name)) for one in report.rounds)) for name in names]
    lines = ["  ".join(cell.ljust(18) if n == 0 else cell.rjust(16) for n, cell in enumerate(row)) for row in rows]
    growth = report.after_mib / report.before_mib - 1
    lines.append(
        f"memory after the warm-ups {report.before_mib} MiB, at the end {report.after_mib} MiB ({growth:+.1%})"
    )
    lines += [f"wrong: {words}" for words in report.mistakes] or ["all answers whole, all counters agree, nothing left"]
    return "\n".join(lines)


def main() -> None:
    """Read the flags, run, print."""
    words = argparse.ArgumentParser(description="many clients at one server", allow_abbrev=False)
    words.add_argument("--base-url", required=True)
    words.add_argument("--pid", type=int, required=True, help="the server's outermost process, for its memory")
    words.add_argument("--clients", type=int, default=500)
    words.add_argument("--requests", type=int, default=1000, help="of each round")
    words.add_argument("--slow-share", type=float, default=0.2)
    words.add_argument("--leave-share", type=float, default=0.1)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--api-key", default="")
    words.add_argument("--timeout-s", type=float, default=300.0, help="of one request")
    words.add_argument("--refusals", action="store_true", help="429 and 503 with Retry-After are no mistake")
    words.add_argument("--short", action="store_true", help="after the warm-ups the last round only")
    words.add_argument("--warm-ups", type=int, default=4, help="at most so many")
    words.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    asked = words.parse_args()
    report = asyncio.run(run(asked))
    print(json.dumps(asdict(report)) if asked.output == "json" else table(report))
    raise SystemExit(bool(report.mistakes))


if __name__ == "__main__":
    main()
