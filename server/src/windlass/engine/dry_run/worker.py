"""The integration with vLLM on GPUs: a worker that takes full steps before the KV cache is sized.

vLLM's profile runs the model without attention and samples plain rows: no drafts, no sampling parameters. Its warm-up,
after the KV cache has taken all other memory, and later a full batch of requests take more. The dry run here is that
warm-up on a small cache, between profile and KV cache.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.distributed import ReduceOp, all_reduce
from vllm import envs
from vllm.config import set_current_vllm_config
from vllm.device_allocator.alloc_conf import expandable_segments_enabled
from vllm.distributed.parallel_state import get_world_group
from vllm.v1.core.kv_cache_utils import get_kv_cache_config_from_groups, get_kv_cache_groups
from vllm.v1.worker.gpu.cudagraph_utils import _teardown_profiling_state
from vllm.v1.worker.gpu.warmup import _warmup_block_counter, warmup_kernels
from vllm.v1.worker.gpu_worker import Worker

from windlass.engine.dry_run.amounts import Batch, Measured, line
from windlass.engine.dry_run.warm_up import at_most

logger = logging.getLogger("vllm.windlass.dry_run")
DECODE_STEPS = 5
"""Of vLLM 0.32's warm-up, at most (`num_decode_steps`)."""


class DryRun:
    """Takes the steps; `execute` and `sample` are the worker's."""

    def __init__(self, runner: Any, execute: Callable[[Any], Any], sample: Callable[[Any], Any]) -> None:  # noqa: ANN401 - the engine has no types here
        self._runner, self._execute, self._sample = runner, execute, sample

    def run(self, room_bytes: int) -> tuple[Batch, int, int]:
        """The batch, and bytes that sampling it and one step of most tokens take; the cache lies in `room_bytes`."""
        batch = self._make_cache(room_bytes)
        cache_bytes = _bytes(self._runner.kv_caches)
        try:
            forward = _peak(self._forward) - cache_bytes
            sampling = _peak(lambda: self._sampled(batch.sizes)) - cache_bytes
        finally:
            _teardown_profiling_state(self._runner)
        return batch, max(0, sampling - _reserved()), max(0, forward - _reserved())

    def _forward(self) -> None:
        self._runner._dummy_run(self._runner.max_num_tokens, skip_eplb=True)

    def _sampled(self, sizes: Iterable[int]) -> None:
        """The engine's warm-up for each size."""
        for size in sizes:
            with at_most(self._runner.scheduler_config, size):
                warmup_kernels(self._runner, self._execute, self._sample)

    def _make_cache(self, room_bytes: int) -> Batch:
        """As many blocks as the warm-up of a full batch needs, fewer where there is no room for them."""
        runner = self._runner
        config, count = runner.vllm_config, _warmup_block_counter(runner)
        drafts, query = runner.num_speculative_steps, runner.decode_query_len
        tokens_max, requests_max = runner.max_num_tokens, runner.max_num_reqs
        requests = max(1, min(requests_max, tokens_max // (query + 1)))
        groups = get_kv_cache_groups(config, runner.get_kv_cache_spec())
        each = sum(count((DECODE_STEPS + 1) * query + 1, group.kv_cache_spec) for group in groups)
        blocks = _fewest(min(requests * each + 1, self._blocks(room_bytes, groups)))
        if each:
            requests = max(1, min(requests, (blocks - 1) // each))
        requests = _fewest(requests)  # stages may differ in layers, so in `each`
        self._initialize(groups, max(blocks, each + 1))
        return Batch(requests, drafts, requests_max, tokens_max)

    def _blocks(self, room_bytes: int, groups: Any) -> int:  # noqa: ANN401
        return int(self._cache(groups, None, room_bytes).num_blocks)

    def _initialize(self, groups: Any, blocks: int) -> None:  # noqa: ANN401
        runner = self._runner
        small = self._cache(groups, blocks, 0)
        runner.initialize_kv_cache(small, is_profiling=True)
        runner.cache_config.num_gpu_blocks = small.num_blocks

    def _cache(self, groups: Any, blocks: int | None, room_bytes: int) -> Any:  # noqa: ANN401
        """The engine's plan of a cache with this many blocks, or with all that there is room for."""
        cache = self._runner.cache_config
        before, cache.num_gpu_blocks_override = cache.num_gpu_blocks_override, blocks
        try:
            return get_kv_cache_config_from_groups(self._runner.vllm_config, groups, available_memory=room_bytes)
        finally:
            cache.num_gpu_blocks_override = before


class ConservativeDryRun(Worker):  # type: ignore[misc]  # the engine has no types here
    """The engine's worker with a dry run after its profile; base of the workers that `--worker-cls` names."""

    @torch.inference_mode()  # type: ignore[untyped-decorator]  # torch has no type for it
    def determine_available_memory(self) -> int:
        """The engine's own, less what full steps take beside its profile."""
        available = int(super().determine_available_memory())
        if why := self._unmeasured():
            logger.warning("conservative dry run: nothing is kept free beside the engine's own profile: %s", why)
            return available
        found = self._dry_run(available)
        logger.info("%s", line(found))
        self.available_kv_cache_memory_bytes -= found.kept
        self.peak_activation_memory += found.kept  # the engine suggests a size of the KV cache by it
        return available - found.kept

    def _unmeasured(self) -> str:
        if self.cache_config.kv_cache_memory_bytes:
            return "the size of the KV cache was given"
        return "" if self.use_v2_model_runner else "the engine took its older runner"

    def _dry_run(self, available: int) -> Measured:
        counted = bool(envs.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS)
        graphs = int(self.cudagraph_memory_estimate)
        steps = DryRun(self.model_runner, self.execute_model, self.sample_tokens)
        try:
            with set_current_vllm_config(self.vllm_config):
                batch, sampling, forward = steps.run(max(0, available) // 2)
        except torch.OutOfMemoryError as error:
            raise RuntimeError(
                "conservative dry run: a full batch does not fit beside the weights and a small KV cache; "
                "lower --max-num-seqs, --max-num-batched-tokens or the number of drafts"
            ) from error
        taken = int(self.init_snapshot.free_memory) - _free()
        return Measured(
            batch=batch,
            sampling=sampling,
            forward=forward,
            profiled=int(self.peak_activation_memory) - (graphs if counted else 0),
            staying=taken - int(self.total_consumed),
            graphs=graphs,
            graphs_counted=counted,
            largest=self._largest(batch),
            under_way=int(self.vllm_config.max_concurrent_batches),
        )

    def _largest(self, batch: Batch) -> int:
        """Bytes of a tensor for which free memory in pieces may have no room; 0 where torch joins them."""
        has_logits = self.model_runner.is_last_pp_rank and not self.model_runner.is_pooling_model
        if expandable_segments_enabled() or not has_logits:
            return 0
        return batch.largest(self.model_config.get_vocab_size(), int(self.model_config.head_dtype.itemsize))


def _peak(work: Callable[[], None]) -> int:
    """Bytes that torch holds of the card at most while the work is done."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    held, used = int(torch.cuda.max_memory_reserved()), int(torch.cuda.max_memory_allocated())
    logger.debug("conservative dry run: torch holds %d bytes at most, and tensors take %d of them", held, used)
    return held


def _reserved() -> int:
    return int(torch.cuda.memory_reserved())


def _free() -> int:
    """Free bytes of the card, of every process."""
    gc.collect()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def _bytes(caches: list[torch.Tensor]) -> int:
    """Of a KV cache; layers may share memory."""
    stores = {store.data_ptr(): store.nbytes() for store in (cache.untyped_storage() for cache in caches)}
    return sum(stores.values())


def _fewest(count: int) -> int:
    """The same number for all ranks: they take the same steps."""
    group = get_world_group()
    if group.world_size == 1:
        return count
    numbers = torch.tensor([count], dtype=torch.int64)
    all_reduce(numbers, op=ReduceOp.MIN, group=group.cpu_group)
    return int(numbers.item())
