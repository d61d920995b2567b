"""A tensor-parallel group: the first process serves requests and tells the others what it does; they do the same.

Orders travel over a group of their own that waits for ever, because the others sit idle while nobody asks. Tokens are
drawn by the first process and sent, so that chance is thrown once.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from windlass_deepspeed.decoder import Decoder, Start

T = TypeVar("T")
FOR_EVER = timedelta(days=3650)


class Orders:
    """Sends Python values from the first process to the others."""

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo", timeout=FOR_EVER)

    def send(self, value: T) -> T:
        """The first process's value, in every process."""
        box: list[T] = [value]
        dist.broadcast_object_list(box, src=0, group=self._group)
        return box[0]

    def agree(self, tokens: list[int]) -> list[int]:
        """The first process's tokens."""
        return self.send(tokens)


def rank() -> int:
    """This process's place in the group; 0 when it is alone."""
    return int(os.environ.get("RANK", "0"))


class Leader:
    """A `Decoder` that has the whole group do each thing."""

    def __init__(self, rows: Decoder, orders: Orders) -> None:
        self._rows, self._orders = rows, orders

    def join(self, starts: Sequence[Start]) -> Mapping[int, int]:
        """Read the prompts, add their rows, and return the first token of each."""
        self._orders.send(("join", list(starts)))
        return self._rows.join(starts)

    def step(self) -> Mapping[int, int]:
        """The next token of every row."""
        self._orders.send(("step", None))
        return self._rows.step()

    def leave(self, keys: Collection[int]) -> None:
        """Give the rows' memory back."""
        self._orders.send(("leave", set(keys)))
        self._rows.leave(keys)

    def end(self) -> None:
        """Let the others go."""
        self._orders.send(("end", None))


def follow(rows: Decoder, orders: Orders) -> None:
    """Do what the first process does, until it ends."""
    while True:
        order: Any = orders.send(None)
        name, value = order
        if name == "join":
            rows.join(value)
        elif name == "step":
            rows.step()
        elif name == "leave":
            rows.leave(value)
        else:
            return
