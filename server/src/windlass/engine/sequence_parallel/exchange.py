"""The exchange of keys and values: after it each rank writes those of all ranks into its own KV cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Gather = Callable[[Tensor], Tensor]
"""A tensor of this rank → those of all ranks, one after the other along the first dimension."""


def all_ranks(key: Tensor, value: Tensor, gather: Gather) -> tuple[Tensor, Tensor]:
    """Keys and values [rows of all ranks, heads, size] from those of this rank, by one collective.

    Both halves are views of one buffer: the kernel that writes the cache takes the distance between rows as it is.
    """
    everywhere = gather(torch.stack((key, value), dim=1))
    return everywhere[:, 0], everywhere[:, 1]
