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

from windlass.engine.dry_run.warm_up import at_most
from windlass.engine.lookahead.verification import Verification

logger = logging.getLogger("windlass.lookahead")
SHARES = (1.0, 0.5, 0.0)
"""Of the planned drafts: all, some, none. Each takes another way through the manager and the sampler."""
REQUESTS: tuple[SamplingParams | None, ...] = (
    None,
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=0.7, top_p=0.8, top_k=20),
    SamplingParams(temperature=0.7, top_p=0.9),
)
"""None keeps vLLM's own parameters, which set everything. The last but one are those of most models' generation_config,
the last what clients ask for."""
TOP_P = REQUESTS[-2:]
"""Top-p with top-k and alone: vLLM compiles three kernels for each."""
PARTS_MAX, ROWS_MAX = 32, 64
"""Of vLLM's top-p kernels: parts of a row, and rows for which it cuts them (vllm/v1/sample/ops/topk_topp_triton.py)."""


def parts_of_a_row(rows: int, processors: int) -> int:
    """Into how many parts vLLM 0.32 cuts each row (`_topp_split_count`); its top-p kernels are compiled for each."""
    parts = 1
    while parts < PARTS_MAX and 2 * parts * rows <= processors:
        parts *= 2
    return parts


def top_p_batches(requests_max: int, processors: int) -> list[int]:
    """The smallest batch for each number of parts, but for that of one request, which comes with the other steps."""
    firsts: dict[int, int] = {}
    for rows in range(1, min(requests_max, ROWS_MAX) + 1):
        firsts.setdefault(parts_of_a_row(rows, processors), rows)
    return list(firsts.values())[1:]


class FirstSteps:
    """Runs vLLM's warm-up steps with adaptive verification on; `execute` and `sample` are the worker's.

    `processors` are the card's multiprocessors.
    """

    def __init__(
        self,
        runner: Any,  # noqa: ANN401 - the engine has no types here
        execute: Callable[[Any], Any],
        sample: Callable[[Any], Any],
        processors: int,
    ) -> None:
        self._batches = top_p_batches(runner.scheduler_config.max_num_seqs, processors)
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
                    self._steps(share)
            for self._parameters in TOP_P:
                self._top_p_steps()
        except Exception:  # the outermost place: a server whose first requests wait is better than none
            logger.exception("the first requests may wait for kernels: a first step failed")
            self._forget()
            return
        logger.info("%d first steps took %.1f s", self.steps, time.monotonic() - began)

    def _top_p_steps(self) -> None:
        for count in self._batches:
            with at_most(self._runner.scheduler_config, count):
                self._steps(0.0)

    def _steps(self, share: float) -> None:
        with self._verifying(share):
            warmup_kernels(self._runner, self._step, self._sample)

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
