"""Draws the next token of each row from its logits: penalties, temperature, top-k, top-p, seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from windlass_deepspeed.sampling import Sampling


@dataclass(slots=True)
class Hand:
    """One row's memory for drawing: what it read, what it said, and its own chance when it has a seed."""

    sampling: Sampling
    prompt: Tensor
    said: list[int] = field(default_factory=list)
    chance: torch.Generator | None = None

    @classmethod
    def new(cls, sampling: Sampling, prompt: Sequence[int], device: torch.device) -> Hand:
        """A row that said nothing yet."""
        chance = None
        if sampling.seed is not None:
            chance = torch.Generator(device=device).manual_seed(sampling.seed)
        return cls(sampling, torch.tensor(prompt, dtype=torch.long, device=device), chance=chance)


def draw(logits: Tensor, hands: Sequence[Hand]) -> list[int]:
    """A token for each row of `[rows, vocabulary]`; the hands remember theirs."""
    if all(hand.sampling.greedy and not hand.sampling.penalized for hand in hands):
        tokens: list[int] = logits.argmax(-1).tolist()
    else:
        tokens = [_one(row.float(), hand) for row, hand in zip(logits, hands, strict=True)]
    return tokens


def _one(logits: Tensor, hand: Hand) -> int:
    sampling = hand.sampling
    if sampling.penalized:
        logits = _penalize(logits, hand)
    if sampling.greedy:
        return int(logits.argmax())
    chances = _keep_likely(logits / sampling.temperature, sampling.top_k, sampling.top_p)
    return int(torch.multinomial(chances, 1, generator=hand.chance))


def _penalize(logits: Tensor, hand: Hand) -> Tensor:
    """Repetition counts the prompt too; presence and frequency only what was said."""
    sampling = hand.sampling
    said = torch.tensor(hand.said, dtype=torch.long, device=logits.device)
    if sampling.repetition_penalty != 1.0:
        seen = torch.cat((hand.prompt, said)).unique()
        known = logits[seen]
        factor = sampling.repetition_penalty
        logits = logits.index_copy(0, seen, torch.where(known > 0, known / factor, known * factor))
    times = torch.bincount(said, minlength=logits.shape[0]).to(logits.dtype)
    return logits - sampling.frequency_penalty * times - sampling.presence_penalty * (times > 0)


def _keep_likely(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """The probabilities after top-k, then top-p; the likeliest token always stays."""
    if 0 < top_k < logits.shape[0]:
        least = logits.topk(top_k).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    chances = logits.softmax(-1)
    if top_p < 1.0:
        ordered, places = chances.sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= top_p
        chances = chances.index_fill(0, places[beyond], 0.0)
    return chances
