"""The integration with vLLM on GPUs: a worker whose runner splits long prompts. `--worker-cls` names it."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm.v1.worker.gpu_worker import Worker

from windlass.engine.dry_run.worker import ConservativeDryRun
from windlass.engine.sequence_parallel import attention  # noqa: F401 - registers the attention
from windlass.engine.sequence_parallel.manager import SequenceParallelManager


class SequenceParallelRunner(GPUModelRunner):  # type: ignore[misc]  # the engine has no types here
    """The engine's runner with our manager of split batches."""

    @property
    def pcp_manager_cls(self) -> type[SequenceParallelManager]:
        """The engine asks for it when it knows the KV cache."""
        return SequenceParallelManager


class SequenceParallelWorker(Worker):  # type: ignore[misc]  # the engine has no types here
    """One for each GPU."""

    def _make_model_runner(self) -> Any:  # noqa: ANN401 - the engine has no types here
        if not self.use_v2_model_runner:
            raise RuntimeError("the engine took a runner that splits no prompts; leave --sequence-parallel-size out")
        return SequenceParallelRunner(self.vllm_config, self.device)


class DryRunSequenceParallelWorker(ConservativeDryRun, SequenceParallelWorker):
    """With `--conservative-dry-run`."""
