"""What vLLM's offloading connector is made of, by name: `spec_name` and `spec_module_path` of its configuration."""

from __future__ import annotations

from typing import Any

from vllm.v1.kv_offload.base import OffloadingCounterMetadata, OffloadingGaugeMetadata, OffloadingWorker
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec

from windlass.engine.prefix_offload.manager import OPEN, SKIPPED, PrefixManager
from windlass.engine.prefix_offload.settings import NOT_LAZY


class PrefixOffloadSpec(CPUOffloadingSpec):  # type: ignore[misc] # vLLM has no types here
    """vLLM's chunks in shared host memory, with our manager."""

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """vLLM's, and two of ours."""
        return {
            **super().build_metric_definitions(extra_config),
            SKIPPED: OffloadingCounterMetadata(documentation="Chunks not kept, since none came back lately."),
            OPEN: OffloadingGaugeMetadata(documentation="1 while evicted prefixes are kept in host memory, else 0."),
        }

    def get_manager(self) -> PrefixManager:
        """The scheduler's part; vLLM asks for it once for each engine."""
        return PrefixManager(
            self.num_chunks,
            cache_policy=self.eviction_policy,
            cache_policy_module_path=self.cache_policy_module_path,
            enable_events=self.kv_events_config.enable_kv_cache_events,
            store_threshold=int(self.extra_config.get("store_threshold", 0)),
        )

    def create_worker(self, kv_caches: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """The worker's part: one that waits for each copy, when the start command asks for that."""
        worker = super().create_worker(kv_caches)
        return WaitingWorker(worker) if self.extra_config.get(NOT_LAZY) else worker


class WaitingWorker(OffloadingWorker):  # type: ignore[misc] # vLLM has no types here
    """Waits for each copy to host memory before the next step, for debugging (`--apc-offload-not-lazy`)."""

    def __init__(self, worker: OffloadingWorker) -> None:
        """Around vLLM's worker."""
        self._worker = worker

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:  # noqa: ANN401 - vLLM's own
        """Copy to host memory, and wait for it."""
        done = bool(self._worker.submit_store(job_id, src_spec, dst_spec))
        self._worker.wait({job_id})
        return done

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:  # noqa: ANN401 - vLLM's own
        """Copy from host memory."""
        return bool(self._worker.submit_load(job_id, src_spec, dst_spec))

    def get_finished(self) -> Any:  # noqa: ANN401 - vLLM's own
        """Copies that are done."""
        return self._worker.get_finished()

    def wait(self, job_ids: set[int]) -> None:
        """Until these copies are done."""
        self._worker.wait(job_ids)

    def shutdown(self) -> None:
        """Release the memory."""
        self._worker.shutdown()


def load_end(worker: Any, job_id: int) -> Any:  # noqa: ANN401 - vLLM's own, and a torch event
    """What the card records when this copy from host memory ends; the copy was submitted."""
    inner = worker._worker if isinstance(worker, WaitingWorker) else worker
    return inner._load_handler._transfer_events[job_id]
