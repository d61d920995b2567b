"""Takes tokens out of a step's choice."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def ban(logits: Tensor, rows: Tensor, tokens: Tensor) -> None:
    """Make `tokens[i]` impossible in `rows[i]` of logits [rows, vocabulary], in place; pairs may repeat.

    A row that would be left without any token keeps what it had: a grammar may allow one token only, and a row of
    nothing cannot be drawn from.
    """
    before = logits[rows, tokens]
    logits[rows, tokens] = -math.inf
    touched, where = torch.unique_consecutive(rows, return_inverse=True)
    is_empty = torch.isneginf(logits[touched]).all(dim=-1)[where]
    logits[rows[is_empty], tokens[is_empty]] = before[is_empty]
