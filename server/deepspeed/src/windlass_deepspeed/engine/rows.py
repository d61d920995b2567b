"""The batch: rows of different lengths that share one key-value cache, padded on the left.

Padding on the left keeps every row's newest token in the last column, so one forward pass decodes all of them. Masked
columns count for nothing and positions are counted by row, so a row computes what it would compute alone. New rows are
read in a pass of their own and then laid beside the others; a row that leaves takes its part of the cache with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache, DynamicLayer

from windlass_deepspeed.decoder import Start
from windlass_deepspeed.engine.draw import Hand, draw
from windlass_deepspeed.sampling import Sampling

Agree = Callable[[list[int]], list[int]]
"""Makes the tokens the same in every process of a tensor-parallel group."""


@dataclass(slots=True)
class Batch:
    """The live rows: their keys, hands, newest tokens, `[rows, columns]` mask and cache."""

    keys: list[int]
    hands: list[Hand]
    newest: list[int]
    mask: Tensor
    cache: DynamicCache


class Rows:
    """A `Decoder` on a model whose forward pass takes a transformers cache; here DeepSpeed's engine."""

    def __init__(
        self, model: Callable[..., Any], device: torch.device, *, takes: frozenset[str], agree: Agree | None = None
    ) -> None:
        self._model, self._device, self._takes = model, device, takes
        self._agree = agree or (lambda tokens: tokens)
        self._batch: Batch | None = None

    def join(self, starts: Sequence[Start]) -> Mapping[int, int]:
        """Read the prompts, add their rows, and return the first token of each."""
        longest = max(len(start.prompt) for start in starts)
        missing = [longest - len(start.prompt) for start in starts]
        ids = self._tensor([[0] * gap + list(start.prompt) for gap, start in zip(missing, starts, strict=True)])
        mask = self._tensor([[0] * gap + [1] * (longest - gap) for gap in missing])
        cache = DynamicCache()
        logits = self._forward(ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), cache)
        hands = [Hand.new(start.sampling, start.prompt, self._device) for start in starts]
        new = Batch([start.key for start in starts], hands, [], mask, cache)
        said = self._say(new, logits)
        self._batch = new if self._batch is None else _beside(self._batch, new)
        return said

    def step(self) -> Mapping[int, int]:
        """The next token of every row."""
        batch = self._batch
        if batch is None:
            return {}
        batch.mask = pad(batch.mask, (0, 1), value=1)
        ids = self._tensor([[token] for token in batch.newest])
        logits = self._forward(ids, batch.mask, batch.mask.sum(-1, keepdim=True) - 1, batch.cache)
        return self._say(batch, logits)

    def leave(self, keys: Collection[int]) -> None:
        """Give the rows' memory back, and the columns that only they needed."""
        batch = self._batch
        if batch is None:
            return
        stay = [at for at, key in enumerate(batch.keys) if key not in keys]
        self._batch = _only(batch, stay) if stay else None

    def is_plain(self, token: int) -> bool:
        """Whether the model keeps a plain key-value cache and nothing else, tried on a prompt of two such tokens."""
        self.join([Start(0, (token, token), Sampling(max_tokens=2, temperature=0.0))])
        self.step()
        layers = self._batch.cache.layers if self._batch else []
        plain = [type(layer) is DynamicLayer and layer.get_seq_length() == 3 for layer in layers]
        self.leave([0])
        return bool(plain) and all(plain)

    def _say(self, batch: Batch, logits: Tensor) -> dict[int, int]:
        batch.newest = self._agree(draw(logits, batch.hands))
        for hand, token in zip(batch.hands, batch.newest, strict=True):
            hand.say(token)
        return dict(zip(batch.keys, batch.newest, strict=True))

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        """The logits of the last column. What a model's forward pass does not take is left out."""
        optional = {"position_ids": positions, "logits_to_keep": 1}
        given = {name: value for name, value in optional.items() if name in self._takes}
        with torch.no_grad():
            out = self._model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **given)
        logits: Tensor = out.logits[:, -1, :]
        return logits

    def _tensor(self, rows: list[list[int]]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self._device)


def forward_takes(model: torch.nn.Module) -> frozenset[str]:
    """The names of the arguments of the model's forward pass."""
    return frozenset(inspect.signature(model.forward).parameters)


def _beside(one: Batch, other: Batch) -> Batch:
    """Both batches as one, the shorter padded on the left."""
    width = max(one.mask.shape[1], other.mask.shape[1])
    parts = [(batch, width - batch.mask.shape[1]) for batch in (one, other)]
    cache = one.cache
    for at, layer in enumerate(cache.layers):
        pairs = [(batch.cache.layers[at], gap) for batch, gap in parts]
        layer.keys = torch.cat([pad(part.keys, (0, 0, gap, 0)) for part, gap in pairs])
        layer.values = torch.cat([pad(part.values, (0, 0, gap, 0)) for part, gap in pairs])
    return Batch(
        one.keys + other.keys,
        one.hands + other.hands,
        one.newest + other.newest,
        torch.cat([pad(batch.mask, (gap, 0)) for batch, gap in parts]),
        cache,
    )


def _only(batch: Batch, stay: list[int]) -> Batch:
    """The batch with these rows, without the columns that are padding in all of them."""
    index = torch.tensor(stay, dtype=torch.long, device=batch.mask.device)
    mask = batch.mask.index_select(0, index)
    empty = int((mask.cumsum(-1) == 0).all(0).sum())
    for layer in batch.cache.layers:
        layer.keys = layer.keys.index_select(0, index)[:, :, empty:].contiguous()
        layer.values = layer.values.index_select(0, index)[:, :, empty:].contiguous()
    return Batch(
        [batch.keys[at] for at in stay],
        [batch.hands[at] for at in stay],
        [batch.newest[at] for at in stay],
        mask[:, empty:].contiguous(),
        batch.cache,
    )
