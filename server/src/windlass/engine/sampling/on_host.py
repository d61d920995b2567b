"""`no_repeat_ngram_size` for the engine's runner with answers in lists on the host (every CPU, some GPUs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

from windlass.engine.sampling.banning import ban
from windlass.engine.sampling.ngrams import Rows

if TYPE_CHECKING:
    from vllm.config import VllmConfig


class OnHost(LogitsProcessor):  # type: ignore[misc]  # the engine has no types here
    """One for the whole batch; a batch in which nobody asks costs one look at an empty table."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        """The engine's own signature."""
        self._rows = Rows()
        self.drafts: Sequence[Sequence[int]] = ()
        """Of each request, while a step with drafts is sampled."""

    @property
    def is_asked(self) -> bool:
        """Whether a request of the batch has the parameter."""
        return bool(self._rows)

    def is_argmax_invariant(self) -> bool:
        """It may take the likeliest token away."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch. The answers are read later: here their last tokens may still be on their way."""
        self._rows.update(batch_update)

    def apply(self, logits: Tensor) -> Tensor:
        """Logits are [requests, vocabulary], of the place behind each request's drafts; changed in place."""
        return _without(logits, self._rows.banned(logits.shape[-1], self.drafts))

    def apply_to_drafts(self, logits: Tensor) -> Tensor:
        """Logits are [drafts, vocabulary], of each draft's own place; changed in place."""
        return _without(logits, self._rows.banned_at_drafts(logits.shape[-1], self.drafts))


def _without(logits: Tensor, banned: tuple[list[int], list[int]]) -> Tensor:
    rows, tokens = banned
    if rows:
        ban(logits, *(torch.tensor(numbers, device=logits.device) for numbers in (rows, tokens)))
    return logits
