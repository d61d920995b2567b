"""vLLM's offloading connector with blocks that lie in one piece, chunks of 256 tokens, and a limit for debugging.

`kv_connector` and `kv_connector_module_path` of the KV transfer configuration name this class.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.config import get_offloading_group_ids
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.platforms import current_platform

from windlass.engine.prefix_offload.in_step import InStep
from windlass.engine.prefix_offload.settings import CARD_LIMIT, IN_STEP, NO_LIMIT, beyond, blocks_per_chunk
from windlass.engine.prefix_offload.spec import load_end

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
        self._in_step: InStep | None = None
        parallel = vllm_config.parallel_config
        is_whole = parallel.decode_context_parallel_size == 1 and parallel.prefill_context_parallel_size == 1
        is_one = is_whole and len(kv_cache_config.kv_cache_groups) == 1  # blocks of one size, each on one rank
        if is_one and extra.get(IN_STEP) and extra.get("offload_prompt_only"):
            spec = kv_cache_config.kv_cache_groups[0].kv_cache_spec
            block_bytes = spec.page_size_bytes * len(kv_cache_config.kv_cache_groups[0].layer_names)
            self._block_tokens = spec.block_size
            self._in_step = InStep(block_bytes // spec.block_size, extra["blocks_per_chunk"] * spec.block_size)
        self._copied_in_step: set[str] = set()
        """Requests whose copy's end is not reported yet; the worker's side."""
        super().__init__(vllm_config, role, kv_cache_config)

    @classmethod
    def get_required_kvcache_layout(cls, vllm_config: Any) -> str | None:  # noqa: ANN401 - vLLM's own
        """The engine takes it where the model's attention can, else its own with a warning."""
        return BLOCK_FIRST

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:  # noqa: ANN401 - vLLM's own
        """The card's blocks, for `--apc-offload-gpu-evictor-limit`."""
        self._pool = gpu_block_pool

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:  # noqa: ANN401
        """Tokens in host memory, and whether they are copied between steps."""
        found, between = super().get_num_new_matched_tokens(request, num_computed_tokens)
        if self._in_step and between:
            left = request.num_tokens - num_computed_tokens - found
            loads = any(not job.is_store for job in self.scheduler._jobs.values())
            between = not self._in_step.allows(request.request_id, found, left, loads=loads)
            self._computed_tokens = num_computed_tokens
        return found, between

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:  # noqa: ANN401
        """The request has blocks for what is copied.

        vLLM marks the blocks of a copy inside the step as cached before it asks here, and its offloading scheduler
        copies into blocks that are not marked. So it gets a view without the marks from the first copied block on.
        """
        if self._in_step and self._in_step.joined(request.request_id) and num_external_tokens:
            blocks = _unmarked(blocks, self._computed_tokens // self._block_tokens)
        super().update_state_after_alloc(request, blocks, num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """What the workers copy; free blocks beyond the limit lose their prefix first."""
        if self._card_limit != NO_LIMIT and self._pool is not None:
            free = self._pool.free_block_queue.get_all_free_blocks()
            cached = [block.block_id for block in free if block.block_hash is not None]
            self._pool.evict_blocks(beyond(cached, self._card_limit))
        if not self._in_step:
            return super().build_connector_meta(scheduler_output)
        meta = super().build_connector_meta(self._without_loads(scheduler_output))
        self._in_step.ended(*(scheduler_output.preempted_req_ids or set()) - {*scheduler_output.num_scheduled_tokens})
        meta.in_step = self._in_step.taken()
        return meta

    def _without_loads(self, scheduler_output: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """The same output without preempted requests that still have a load job.

        vLLM asserts that a preempted request has store jobs only, and waits for those. A load needs no waiting: the
        card ends it before it computes anything in the blocks' next use.
        """
        preempted = scheduler_output.preempted_req_ids or set()
        loads = {job.req_id for job in self.scheduler._jobs.values() if not job.is_store}
        if not preempted & loads:
            return scheduler_output
        other = copy.copy(scheduler_output)
        other.preempted_req_ids = preempted - loads
        return other

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> Any:  # noqa: ANN401 - vLLM's own
        """The request runs no more."""
        if self._in_step:
            self._in_step.ended(request.request_id)
        return super().request_finished_all_groups(request, block_ids)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Submit the copies; the card computes this step after those inside it."""
        super().start_load_kv(forward_context, **kwargs)
        metadata = self._get_connector_metadata()
        inside = getattr(metadata, "in_step", ())
        for job, load in metadata.load_jobs.items() if inside else ():
            if load.req_id in inside:
                current_platform.current_stream().wait_event(load_end(self.connector_worker.worker, job))
                self._copied_in_step.add(load.req_id)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        """Requests whose copy ended. One copied inside its step was never waiting, so the scheduler is not told."""
        sent, received = super().get_finished(finished_req_ids)
        inside = received & self._copied_in_step
        self._copied_in_step -= inside
        return sent, received - inside


def _unmarked(blocks: Any, first: int) -> Any:  # noqa: ANN401 - vLLM's own
    """The same blocks, those from `first` on as if no prefix were kept in them."""

    def view(block: Any) -> Any:  # noqa: ANN401
        return SimpleNamespace(block_id=block.block_id, is_null=block.is_null, block_hash=None)

    return SimpleNamespace(blocks=tuple([*group[:first], *map(view, group[first:])] for group in blocks.blocks))
