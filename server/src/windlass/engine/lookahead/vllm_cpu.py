"""The integration with vLLM on CPUs: a proposer class of the runner with token ids on the host, and the worker that
lets it in.

The engine hands a proposer rows without request ids, so the worker shows it the runner's batch. Read of the runner:
`drafter`, `requests`, `input_batch.req_ids`, `.num_prompt_tokens`; of the step: `total_num_scheduled_tokens`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vllm.distributed.parallel_state import get_tp_group
from vllm.v1.worker.cpu_worker import CPUWorker

from windlass.engine.lookahead import settings
from windlass.engine.lookahead.drafting import Drafting
from windlass.engine.lookahead.engine_facts import engine_facts
from windlass.engine.lookahead.rows import Row, Rows, guarded
from windlass.engine.sampling import plugin

if TYPE_CHECKING:
    import numpy as np
    from vllm.config import VllmConfig

PROPOSER = "windlass.engine.lookahead.vllm_cpu.HostProposer"
WORKER = "windlass.engine.lookahead.vllm_cpu.HostWorker"


class HostProposer:
    """Named by `--speculative-config`; made by the runner. Of several ranks only the first drafts.

    And its drafts count.
    """

    def __init__(self, vllm_config: VllmConfig) -> None:
        """The engine's own signature."""
        known = settings.read(os.environ) or settings.LookaheadSettings()
        self._most = vllm_config.speculative_config.num_speculative_tokens
        self._longest = vllm_config.model_config.max_model_len
        self._drafting = Drafting(known, engine_facts(vllm_config)) if get_tp_group().is_first_rank else None
        self._rows = Rows(self._drafting.cache) if self._drafting else None
        self._runner: Any = None

    def attach(self, runner: Any) -> None:  # noqa: ANN401 - the engine has no types here
        """Show it the runner whose batch it drafts for."""
        self._runner = runner

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: np.ndarray[Any, Any],
        token_ids_cpu: np.ndarray[Any, Any],
        slot_mappings: object = None,
    ) -> list[list[int]]:
        """The engine's own signature: a draft for each row of the batch, `[]` for none."""
        if self._rows is None:
            return [[] for _ in sampled_token_ids]
        batch, followed = self._runner.input_batch, self._rows
        rows = []
        for number, sampled in enumerate(sampled_token_ids):
            length = int(num_tokens_no_spec[number])
            most = min(self._most, self._longest - length - 1) if sampled else 0
            tokens, prompt = token_ids_cpu[number, :length], int(batch.num_prompt_tokens[number])
            rows.append(Row(batch.req_ids[number], tokens, prompt, most))
        return guarded(lambda: followed.step(rows, self._runner.requests.keys()), len(rows))

    def rest(self) -> None:
        """Finish requests that ended in a step without rows.

        So that the last texts before a pause serve the next request.
        """
        if followed := self._rows:
            guarded(lambda: followed.step([], self._runner.requests.keys()), 0)

    def load_model(self, *_: object, **__: object) -> None:
        """There is no model; the engine asks all the same."""

    def dummy_run(self, *_: object, **__: object) -> None:
        """There is nothing to warm up."""

    def close(self) -> None:
        """Keep what is to be kept."""
        if self._drafting:
            self._drafting.close()


class HostWorker(CPUWorker):  # type: ignore[misc]  # the engine has no types here
    """Named by `--worker-cls`."""

    def init_device(self) -> None:
        """Make the runner, and show it to its proposer."""
        plugin.register()  # where an allow-list of plug-ins leaves it out
        super().init_device()
        if drafter := self._proposer():
            drafter.attach(self.model_runner)

    def execute_model(self, scheduler_output: Any) -> Any:  # noqa: ANN401 - the engine has no types here
        """The engine's own; its last step before a pause has no rows, only the names of those that ended."""
        done = super().execute_model(scheduler_output)
        if not scheduler_output.total_num_scheduled_tokens and (drafter := self._proposer()):
            drafter.rest()
        return done

    def shutdown(self) -> None:
        """Keep the cache."""
        if drafter := self._proposer():
            drafter.close()
        super().shutdown()

    def _proposer(self) -> HostProposer | None:
        drafter = getattr(self.model_runner, "drafter", None)
        return drafter if isinstance(drafter, HostProposer) else None
