"""vLLM's scheduler that plans ahead, with as many drafts for each request as its draft budget allows.

vLLM decodes a row without planned drafts as if there were no speculation at all, on the host too. Planned drafts count
as tokens of the step, verified or not.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from windlass_lookahead.policy import drafts_to_plan

from windlass.engine.lookahead import settings
from windlass.engine.lookahead.draft_budgets import UNKNOWN, DraftBudgets


class LookaheadScheduler(AsyncScheduler):  # type: ignore[misc]  # the engine has no types here
    """Named by `--scheduler-cls`."""

    def __init__(self, *words: Any, **options: Any) -> None:  # noqa: ANN401 - the engine's own signature
        """The engine's own signature."""
        super().__init__(*words, **options)
        known = settings.read(os.environ)
        engine = str(self.parallel_config.data_parallel_rank)
        self._budgets = DraftBudgets(known.counts_dir, engine) if known and known.counts_dir else None
        speculation = self.vllm_config.speculative_config
        self._takes_any_length = bool(speculation and speculation.enable_adaptive_verification)

    def _update_after_schedule(self, scheduler_output: Any) -> None:  # noqa: ANN401 - the engine has no types here
        rows = scheduler_output.num_scheduled_tokens
        budgets = self._budgets.of(rows) if self._budgets else None
        if budgets is not None and not any(budgets):
            scheduler_output.num_spec_tokens_to_schedule = 0  # so that the engine places none
        super()._update_after_schedule(scheduler_output)
        if budgets is None or not any(budgets):
            return
        wanted = scheduler_output.total_num_scheduled_tokens + len(rows) * self.num_spec_tokens
        is_full = self._takes_any_length and wanted >= self.max_num_scheduled_tokens
        plans = _plans(scheduler_output.num_spec_tokens_to_schedule, is_full=is_full)
        are_planned = False
        requests = self.requests
        for request_id, budget in zip(rows, budgets, strict=True):
            request = requests[request_id]
            if request.spec_token_ids:  # the engine has placed as many as this step may have
                request.spec_token_ids = planned = plans[budget]
                are_planned = are_planned or bool(planned)
        if not are_planned:  # the drafter need not draft, nor the device wait for it
            scheduler_output.num_spec_tokens_to_schedule = 0


@functools.cache
def _plans(most: int, *, is_full: bool) -> tuple[list[int], ...]:
    """Planned drafts by draft budget, as the engine plans them: a list for all requests, which nobody changes."""
    return tuple([-1] * drafts_to_plan(budget, most, is_full=is_full) for budget in range(UNKNOWN + 1))
