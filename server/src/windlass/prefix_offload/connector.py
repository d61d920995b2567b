"""vLLM's offloading connector with blocks that lie in one piece, chunks of 256 tokens, and a limit for debugging.

`kv_connector` and `kv_connector_module_path` of the KV transfer configuration name this class.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.config import get_offloading_group_ids
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

from windlass.prefix_offload.settings import CARD_LIMIT, NO_LIMIT, beyond, blocks_per_chunk

BLOCK_FIRST = "BLHNC"
"""All layers of a block beside one another: one copy of megabytes instead of one of kilobytes for each layer."""


class PrefixOffloadConnector(OffloadingConnector):  # type: ignore[misc] # vLLM has no types here
    """The engine's connector, as `windlass run --enable-prefix-cache-offload` wants it."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Choose the chunk's size before the connector reads it."""
        extra = vllm_config.kv_transfer_config.kv_connector_extra_config
        groups = get_offloading_group_ids(kv_cache_config)
        extra["blocks_per_chunk"] = blocks_per_chunk(
            kv_cache_config.kv_cache_groups[group].kv_cache_spec.block_size for group in groups
        )
        self._card_limit = int(extra.get(CARD_LIMIT, NO_LIMIT))
        self._pool: Any = None
        super().__init__(vllm_config, role, kv_cache_config)

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: Any) -> str | None:  # noqa: ANN401 - vLLM's own
        """The engine takes it where the model's attention can, else its own with a warning."""
        return BLOCK_FIRST

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:  # noqa: ANN401 - vLLM's own
        """The card's blocks, for `--apc-offload-gpu-evictor-limit`."""
        self._pool = gpu_block_pool

    def build_connector_meta(self, scheduler_output: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """What the workers copy; free blocks beyond the limit lose their prefix first."""
        if self._card_limit != NO_LIMIT and self._pool is not None:
            free = self._pool.free_block_queue.get_all_free_blocks()
            cached = [block.block_id for block in free if block.block_hash is not None]
            self._pool.evict_blocks(beyond(cached, self._card_limit))
        return super().build_connector_meta(scheduler_output)
