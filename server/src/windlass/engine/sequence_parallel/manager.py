"""The engine's manager of split batches, for other attention than MLA, and for steps that split nothing.

A step without a long prompt runs on every rank as it would on one GPU: no exchange in any layer, the same CUDA graphs.
All ranks then compute the same, and the last hidden states of the first rank are everybody's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from vllm.config import VllmConfig
from vllm.distributed.parallel_state import get_pcp_group
from vllm.v1.worker.gpu.pcp_manager import PCPManager

from windlass.engine.sequence_parallel import schedule
from windlass.engine.sequence_parallel.fit import refusal


class SequenceParallelManager(PCPManager):  # type: ignore[misc]  # the engine has no types here
    """One for each rank's runner."""

    def __init__(self, *words: Any, **named: Any) -> None:  # noqa: ANN401 - the engine's own
        """As the engine makes its own; requests that decode stay whole on every rank."""
        super().__init__(*words, **{**named, "shard_decode_requests": False})
        self._splits = False

    @staticmethod
    def validate_config(vllm_config: VllmConfig, supports_mm_inputs: bool) -> None:
        """Refuse what has no exchange, by the error type of the engine's own check, which refuses all but MLA."""
        if sentence := refusal(vllm_config, supports_mm_inputs=supports_mm_inputs):
            raise NotImplementedError(sentence)

    def replicated_requests(self, num_scheduled_tokens: Any, is_prefilling: Any) -> Any:  # noqa: ANN401 - the engine's
        """By request, whether every rank computes all of its rows."""
        rows, prefills = np.asarray(num_scheduled_tokens, np.int64), np.asarray(is_prefilling, np.bool_)
        return schedule.whole(rows, prefills, self.pcp_world_size)

    def get_num_tokens_for_dispatch(self, num_scheduled_tokens: Any, is_prefilling: Any) -> int:  # noqa: ANN401 - the engine's
        """Rows of the rank that has most; asked in every step, and mostly none is split."""
        if self.replicated_requests(num_scheduled_tokens, is_prefilling).all():
            return int(num_scheduled_tokens.sum())
        return int(super().get_num_tokens_for_dispatch(num_scheduled_tokens, is_prefilling))

    def partition_batch(self, input_batch: Any, batch_desc: Any) -> Any:  # noqa: ANN401 - the engine's
        """This rank's rows; the batch itself where no request is split."""
        is_whole = self.replicated_requests(input_batch.num_scheduled_tokens, input_batch.is_prefilling_np)
        self._splits = not bool(is_whole.all())
        if self._splits:
            return super().partition_batch(input_batch, batch_desc)
        self._global_batch = input_batch
        self._local_batch = self.prepare_inputs_to_capture(input_batch)  # the buffers that the graphs read
        return self._local_batch

    def prepare_slot_mappings(self) -> Tensor:
        """Where keys and values go: the rows of all ranks, or of this one where no request is split."""
        if self._splits:
            return super().prepare_slot_mappings()
        batch = self._global_batch
        return self._block_tables.compute_slot_mappings(
            batch.idx_mapping,
            batch.query_start_loc,
            batch.positions,
            batch.num_tokens_after_padding,
            out=self._gathered_kv_slot_mappings,
        )

    def get_dummy_slot_mappings(self, num_tokens: int) -> Tensor:
        """Warm-up and the graphs of decoding split nothing."""
        return super().get_dummy_slot_mappings(num_tokens)[:, :num_tokens]

    def restore_hidden_states(self, hidden_states: Tensor) -> Tensor:
        """All rows in the scheduler's order, the same on every rank: else a rank might sample another token."""
        if self._splits:
            return super().restore_hidden_states(hidden_states)
        return get_pcp_group().broadcast(hidden_states, src=0)
