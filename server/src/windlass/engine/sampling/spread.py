"""Temperature, top-k and top-p of each request for each of its drafts, on CPUs. Called by `plugin`.

vLLM 0.32 writes them into a copy on CPUs and drops it, so drafts are judged by whatever the memory held before
(vllm-project/vllm#55005). Greedy requests never ask. To be deleted with the engine's own fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def spread(values: Tensor, ends: Tensor, drafts: int, replace_from: float = 0, replace_to: float = 0) -> Tensor:
    """Each request's value once a draft of it: `[requests]` and where the drafts of each end give `[drafts]`."""
    counts = ends.diff(prepend=ends.new_zeros(1))
    return values.masked_fill(values == replace_from, replace_to).repeat_interleave(counts, output_size=drafts)


def install() -> None:
    """Put it in the place of the engine's."""
    from vllm.v1.sample import rejection_sampler

    rejection_sampler.expand_batch_to_tokens = spread
