"""FlashAttention whose KV cache gets the keys and values of all ranks. `--attention-backend CUSTOM` names it.

The engine gives each part of a prompt a row of its own, with the length of the context up to the part's last token.
FlashAttention aligns its causal mask with that end, so each part sees the cache as one GPU would have filled it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm.distributed.parallel_state import get_pcp_group
from vllm.utils.math_utils import round_up
from vllm.v1.attention.backends.flash_attn import (
    FlashAttentionBackend,
    FlashAttentionImpl,
    FlashAttentionMetadataBuilder,
)
from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

from windlass.engine.sequence_parallel.exchange import all_ranks

PARTS = 2
"""Rows of the batch that a request has on one rank at most."""


class SequenceParallelImpl(FlashAttentionImpl):  # type: ignore[misc]  # the engine has no types here
    """The engine's attention over a cache that is the same on every rank."""

    supports_pcp = True

    def do_kv_cache_update(
        self,
        layer: torch.nn.Module,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        slot_mapping: Tensor,
    ) -> None:
        """Write the keys and values of this step; those of all ranks, where the slots are for all ranks."""
        if slot_mapping.shape[0] > key.shape[0]:
            key, value = all_ranks(key, value, _gather)
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)


def _gather(tensor: Tensor) -> Tensor:
    gathered: Tensor = get_pcp_group().all_gather(tensor, dim=0)
    return gathered


class SequenceParallelBuilder(FlashAttentionMetadataBuilder):  # type: ignore[misc]  # the engine has no types here
    """The engine's metadata, with room for twice as many rows."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:  # noqa: ANN401 - the engine has no types here
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        if (stock := getattr(self, "scheduler_metadata", None)) is not None:
            rows = PARTS * vllm_config.scheduler_config.max_num_seqs
            size = max(stock.shape[0], 1 + 4 * round_up(rows, 4))  # as the engine reckons it for its own rows
            self.scheduler_metadata = torch.zeros(size, dtype=stock.dtype, device=device)


@register_backend(AttentionBackendEnum.CUSTOM)
class SequenceParallelBackend(FlashAttentionBackend):  # type: ignore[misc]  # the engine has no types here
    """What the engine finds under the name CUSTOM."""

    @staticmethod
    def get_impl_cls() -> type[SequenceParallelImpl]:
        """The attention."""
        return SequenceParallelImpl

    @staticmethod
    def get_builder_cls() -> type[SequenceParallelBuilder]:
        """The builder of its metadata."""
        return SequenceParallelBuilder
