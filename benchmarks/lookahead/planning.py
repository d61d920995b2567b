"""What planning drafts takes the engine's thread in a step: our scheduler's last part beside the engine's own.

    .venv/bin/python -m windlass_testbed python /repo/benchmarks/lookahead/planning.py

In the serving image, without a GPU. All rows decode; all of them have the draft budget 0, or all of them plan drafts.
Medians of 2,000 steps in microseconds, as a line of JSON for each number of rows.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from types import SimpleNamespace
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from windlass.lookahead.draft_budgets import DraftBudgets
from windlass.lookahead.scheduler import LookaheadScheduler

MOST, STEPS, ROWS = 6, 2000, (1, 16, 64, 128, 256, 512)
ARMS = {"stock": (AsyncScheduler, 0), "none planned": (LookaheadScheduler, 0), "all planned": (LookaheadScheduler, 5)}


class Decoding(SimpleNamespace):
    """A request under way, as the engine's method reads it."""

    __hash__ = object.__hash__

    def __init__(self) -> None:
        super().__init__(
            num_computed_tokens=10,
            num_in_flight_tokens=0,
            num_tokens=10,
            num_output_placeholders=0,
            use_structured_output=False,
            is_prefill_chunk=False,
            spec_token_ids=[],
            next_decode_eligible_step=0,
        )


def scheduler(kind: type, rows: int, budget: int, folder: str) -> Any:  # noqa: ANN401 - the engine has no types here
    """One with what its last part reads."""
    made = kind.__new__(kind)
    made.requests = {f"chatcmpl-{row:032x}-{row:08x}": Decoding() for row in range(rows)}
    made.num_spec_tokens, made.max_num_scheduled_tokens, made.num_sampled_tokens_per_step = MOST, 8192, 1
    made.defer_block_free, made.use_v2_model_runner, made.current_step, made.decode_stagger = False, True, 1, 1
    made._inflight_prefills = set()
    if kind is LookaheadScheduler:
        made._takes_any_length, made._budgets = True, DraftBudgets(folder, "0")
        made._budgets.memory[:] = bytes([budget]) * len(made._budgets.memory)
    return made


def step_us(made: Any) -> float:  # noqa: ANN401
    """Microseconds of one step."""
    rows = len(made.requests)
    output = SimpleNamespace(
        num_scheduled_tokens=dict.fromkeys(made.requests, 1),
        total_num_scheduled_tokens=rows,
        num_spec_tokens_to_schedule=MOST,
        scheduled_spec_decode_tokens={},
        pending_structured_output_tokens=False,
        has_structured_output_requests=False,
    )
    began = time.perf_counter()
    made._update_after_schedule(output)
    return 1e6 * (time.perf_counter() - began)


def main() -> None:
    """A line for each number of rows."""
    for rows in ROWS:
        line: dict[str, float] = {"rows": rows}
        for name, (kind, budget) in ARMS.items():
            with tempfile.TemporaryDirectory() as folder:
                made = scheduler(kind, rows, budget, folder)
                line[name] = round(statistics.median(step_us(made) for _ in range(STEPS)), 1)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
