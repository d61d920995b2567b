"""The scheduler's view of the chunks in host memory: vLLM's manager behind the reuse gate."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from vllm.v1.kv_offload.base import LookupResult, PrepareStoreOutput
from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec
from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

from windlass.engine.prefix_offload.reuse import ReuseGate

SKIPPED = "windlass:prefix_offload_chunks_skipped"
OPEN = "windlass:prefix_offload_keeps"


class PrefixManager(CPUOffloadingManager):  # type: ignore[misc] # vLLM has no types here
    """Keeps what may come back. Everything else is vLLM's: chunks, references, eviction."""

    def __init__(self, num_chunks: int, **options: Any) -> None:  # noqa: ANN401 - vLLM's own
        """As vLLM's, over `num_chunks` chunks of host memory."""
        super().__init__(num_chunks=num_chunks, **options)
        self.gate = ReuseGate(num_chunks)
        self._skipped = 0

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:  # noqa: ANN401 - vLLM's own
        """Whether host memory holds the chunk; a miss may show that it would have been worth keeping."""
        found = super().lookup(key, req_context)
        if found is LookupResult.MISS:
            self.gate.looked_for(key)
        return found

    def prepare_load(self, keys: Collection[bytes], req_context: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """Where the chunks lie."""
        self.gate.came_back()
        return super().prepare_load(keys, req_context)

    def prepare_store(self, keys: Collection[bytes], req_context: Any) -> PrepareStoreOutput | None:  # noqa: ANN401
        """Where the chunks go; nowhere while the gate is closed."""
        keys = list(keys)
        if self.gate.admits(keys):
            return super().prepare_store(keys, req_context)
        self._skipped += len(keys)
        return PrepareStoreOutput(keys_to_store=[], store_spec=CPULoadStoreSpec([]), evicted_keys=[])

    def reset_cache(self) -> None:
        """Forget everything."""
        super().reset_cache()
        self.gate.forget()

    def get_stats(self) -> Any:  # noqa: ANN401 - vLLM's own
        """vLLM's counters, and ours since the last call."""
        stats = super().get_stats()
        stats.increase_counter(SKIPPED, self._skipped)
        stats.set_gauge(OPEN, float(self.gate.is_open))
        self._skipped = 0
        return stats
