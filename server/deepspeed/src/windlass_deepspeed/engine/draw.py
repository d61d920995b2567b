"""Draws the next token of each row from its logits: the rules of its request, then chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from windlass.engine.sampling.banning import ban
from windlass.engine.sampling.ngrams import Ngrams

from windlass_deepspeed.sampling import Sampling


@dataclass(slots=True)
class Hand:
    """One row's memory for drawing: what it read, what it said, and its own chance when it has a seed.

    With `no_repeat_ngram_size`, also the runs of tokens of both.
    """

    sampling: Sampling
    prompt: Tensor
    said: list[int] = field(default_factory=list)
    chance: torch.Generator | None = None
    ngrams: Ngrams | None = None

    @classmethod
    def new(cls, sampling: Sampling, prompt: Sequence[int], device: torch.device) -> Hand:
        """A row that said nothing yet."""
        chance = None
        if sampling.seed is not None:
            chance = torch.Generator(device=device).manual_seed(sampling.seed)
        ngrams = Ngrams(sampling.no_repeat_ngram_size) if sampling.no_repeat_ngram_size else None
        if ngrams:
            ngrams.extend(prompt)
        return cls(sampling, torch.tensor(prompt, dtype=torch.long, device=device), chance=chance, ngrams=ngrams)

    def say(self, token: int) -> None:
        """The row goes on with this token."""
        self.said.append(token)
        if self.ngrams:
            self.ngrams.extend((token,))


def draw(logits: Tensor, hands: Sequence[Hand]) -> list[int]:
    """A token for each row of `[rows, vocabulary]`."""
    if all(hand.sampling.plain for hand in hands):
        tokens: list[int] = logits.argmax(-1).tolist()
    else:
        tokens = [_one(row.float(), hand) for row, hand in zip(logits, hands, strict=True)]
    return tokens


def _one(logits: Tensor, hand: Hand) -> int:
    sampling = hand.sampling
    if sampling.logit_bias:
        logits = _bias(logits, sampling.logit_bias)
    if hand.ngrams:
        logits = _without_repeats(logits, hand.ngrams)
    if sampling.penalized:
        logits = _penalize(logits, hand)
    if sampling.greedy:
        return int(logits.argmax())
    logits = logits / sampling.temperature
    if sampling.min_p:
        chances = logits.softmax(-1)
        logits = logits.masked_fill(chances < chances.max() * sampling.min_p, float("-inf"))
    chances = _keep_likely(logits, sampling.top_k, sampling.top_p)
    return int(torch.multinomial(chances, 1, generator=hand.chance))


def _bias(logits: Tensor, biases: Sequence[tuple[int, float]]) -> Tensor:
    """A token that the model does not have has no logit."""
    known = [(token, bias) for token, bias in biases if token < logits.shape[0]]
    tokens = torch.tensor([token for token, _ in known], dtype=torch.long, device=logits.device)
    return logits.index_add(0, tokens, logits.new_tensor([bias for _, bias in known]))


def _without_repeats(logits: Tensor, ngrams: Ngrams) -> Tensor:
    (banned,) = ngrams.banned()
    tokens = torch.tensor(
        [token for token in banned if token < logits.shape[0]], dtype=torch.long, device=logits.device
    )
    found = logits[None].clone()
    ban(found, torch.zeros_like(tokens), tokens)
    return found[0]


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
