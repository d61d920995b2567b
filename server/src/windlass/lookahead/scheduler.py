"""vLLM's scheduler that plans ahead, without drafts for requests whose drafts are not worth their cost.

A row without planned drafts is decoded as if there were no speculation at all, on the host too. Planned drafts count as
tokens of the step, verified or not: where prompts want the room, no more are planned than are worth it.
"""

from __future__ import annotations

import os
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from windlass.lookahead import settings
from windlass.lookahead.promises import Promises


class PromisingScheduler(AsyncScheduler):  # type: ignore[misc]  # the engine has no types here
    """Named by `--scheduler-cls`."""

    def __init__(self, *words: Any, **options: Any) -> None:  # noqa: ANN401 - the engine's own signature
        """The engine's own signature."""
        super().__init__(*words, **options)
        known = settings.read(os.environ)
        engine = str(self.parallel_config.data_parallel_rank)
        self._promises = Promises(known.counts_dir, engine) if known and known.counts_dir else None
        speculation = self.vllm_config.speculative_config
        self._takes_any_length = bool(speculation and speculation.enable_adaptive_verification)

    def _update_after_schedule(self, scheduler_output: Any) -> None:  # noqa: ANN401 - the engine has no types here
        super()._update_after_schedule(scheduler_output)
        if self._promises is None:
            return
        rows = scheduler_output.num_scheduled_tokens
        wanted = scheduler_output.total_num_scheduled_tokens + len(rows) * self.num_spec_tokens
        is_full = self._takes_any_length and wanted >= self.max_num_scheduled_tokens
        are_planned = False
        requests, promised_to = self.requests, self._promises.of
        for request_id in rows:
            request = requests[request_id]
            if not request.spec_token_ids:
                continue
            promised = promised_to(request_id)
            if is_full or not promised:
                request.spec_token_ids = request.spec_token_ids[: max(0, promised - 1)]
            are_planned = are_planned or bool(request.spec_token_ids)
        if not are_planned:  # the drafter need not draft, nor the device wait for it
            scheduler_output.num_spec_tokens_to_schedule = 0
