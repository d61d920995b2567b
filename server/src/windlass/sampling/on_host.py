"""`no_repeat_ngram_size` for the engine's runner with answers in lists on the host (every CPU, some GPUs)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

from windlass.sampling.banning import ban
from windlass.sampling.ngrams import Rows

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class OnHost(LogitsProcessor):  # type: ignore[misc]  # the engine has no types here
    """One for the whole batch; a batch in which nobody asks costs one look at an empty table."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        """The engine's own signature."""
        self._rows = Rows()

    def is_argmax_invariant(self) -> bool:
        """It may take the likeliest token away."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch. The answers are read later: here their last tokens may still be on their way."""
        self._rows.update(batch_update)

    def apply(self, logits: Tensor) -> Tensor:
        """Logits are [requests, vocabulary]; changed in place."""
        rows, tokens = self._rows.banned(logits.shape[-1])
        if rows:
            ban(logits, *(torch.tensor(numbers, device=logits.device) for numbers in (rows, tokens)))
        return logits
