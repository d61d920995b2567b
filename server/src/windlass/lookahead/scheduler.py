"""vLLM's scheduler that plans ahead, without drafts for requests whose drafts are not worth their cost.

A row without planned drafts is decoded as if there were no speculation at all, on the host too.
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

    def _update_after_schedule(self, scheduler_output: Any) -> None:  # noqa: ANN401 - the engine has no types here
        super()._update_after_schedule(scheduler_output)
        if self._promises is None:
            return
        for request_id in scheduler_output.num_scheduled_tokens:
            if not self._promises.of(request_id):
                self.requests[request_id].spec_token_ids = []
