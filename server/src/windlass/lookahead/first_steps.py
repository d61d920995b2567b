"""Steps like those of a server's first requests, run before it is ready: no request waits for a kernel to be compiled.

vLLM's own warm-up turns adaptive verification off: it verifies all drafts or none, with all sampling parameters set. A
server with lookahead verifies any number of drafts, mostly for greedy or plainly sampled requests. The steps here are
vLLM's, run once more as they are served, for each kind of request and each share of the drafts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vllm import SamplingParams
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.worker.gpu.warmup import warmup_kernels

from windlass.lookahead.verification import Verification

logger = logging.getLogger("windlass.lookahead")
SHARES = (1.0, 0.5, 0.0)
"""Of the planned drafts: all, some, none. Each takes another way through the manager and the sampler."""
REQUESTS: tuple[SamplingParams | None, ...] = (
    None,
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.7, top_p=0.8, top_k=20),
)
"""None keeps vLLM's own parameters, which set everything. The last are those of most models' generation_config."""


class FirstSteps:
    """Runs vLLM's warm-up steps with adaptive verification on; `execute` and `sample` are the worker's."""

    def __init__(self, runner: Any, execute: Callable[[Any], Any], sample: Callable[[Any], Any]) -> None:  # noqa: ANN401 - the engine has no types here
        self._runner, self._execute, self._sample = runner, execute, sample
        self._manager, self._sampler = runner.adaptive_verification, runner.rejection_sampler
        self._parameters: SamplingParams | None = None
        self.steps = 0

    def run(self) -> None:
        """All of them; nothing where all drafts are always verified, for vLLM's own warm-up has run just that."""
        if self._manager is None or self._manager.cost_tables is None:
            return
        began = time.monotonic()
        try:
            for self._parameters in REQUESTS:
                for share in SHARES:
                    with self._verifying(share):
                        warmup_kernels(self._runner, self._step, self._sample)
        except Exception:  # the outermost place: a server whose first requests wait is better than none
            logger.exception("the first requests may wait for kernels: a first step failed")
            self._forget()
            return
        logger.info("%d first steps took %.1f s", self.steps, time.monotonic() - began)

    def _verifying(self, share: float) -> AbstractContextManager[None]:
        """Several ranks keep vLLM's manager, which chooses by its cost tables."""
        return self._manager.verifying(share) if isinstance(self._manager, Verification) else nullcontext()

    def _step(self, output: Any) -> Any:  # noqa: ANN401 - the engine has no types here
        """One of vLLM's steps, which has switched off just what is served."""
        self._runner.adaptive_verification = self._manager
        if self._sampler is not None:
            self._sampler.enable_adaptive_verification = True
        if self._parameters is not None:
            for new in output.scheduled_new_reqs:
                new.sampling_params = self._parameters
        self.steps += 1
        return self._execute(output)

    def _forget(self) -> None:
        """End the requests of a step that failed; vLLM's warm-up leaves them."""
        cleanup = SchedulerOutput.make_empty()
        cleanup.finished_req_ids = set(self._runner.req_states.req_id_to_index)
        self._runner.kv_connector.set_disabled(True)
        self._execute(cleanup)
        self._runner.kv_connector.set_disabled(False)
