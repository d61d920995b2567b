"""Requests of a recorded trace in Mooncake's format: whole conversations, drawn by chance, and their tokens. No GPU.

    python traces.py TRACE.jsonl [--requests 140] [--window 900] [--seconds 35]

A line of a trace has `timestamp` (ms), `input_length`, `output_length`, and `hash_ids`: one for each 512 tokens of the
prompt, equal where the text is equal. Tokens are drawn by the hash, so equal hashes are equal tokens. Printed is what
the drawn requests are: their tokens, and the share that repeats.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK = 512
"""Tokens of a hash, in Mooncake's traces."""
LONGEST = 16_000
"""Tokens of a prompt: a conversation with a longer one is not drawn, since the engines' context ends there."""
ANSWER_MAX = 64
"""Tokens of an answer: decoding is the same in all arms, and the time on a card is short."""
FIRST_TOKEN, TOKENS = 1000, 100_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request: when it comes, its hashes, and its tokens in and out."""

    at_s: float
    hashes: tuple[int, ...]
    length: int
    answer: int

    def tokens(self, first: int = FIRST_TOKEN, count: int = TOKENS, salt: str = "") -> list[int]:
        """The prompt, of tokens from `first` on."""
        found: list[int] = []
        for one in self.hashes:
            chance = random.Random(f"{salt}{one}")  # noqa: S311 - no secret
            found += chance.choices(range(first, first + count), k=BLOCK)
        return found[: self.length]


def read(path: Path) -> list[Request]:
    """Every request of a trace."""
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return [
        Request(row["timestamp"] / 1000, tuple(row["hash_ids"]), row["input_length"], row["output_length"])
        for row in rows
    ]


def conversations(requests: Iterable[Request], root: int) -> list[list[Request]]:
    """Requests by the hash at place `root`: with 1, a first block that all share does not make one conversation."""
    found: dict[int, list[Request]] = {}
    for one in requests:
        found.setdefault(one.hashes[min(root, len(one.hashes) - 1)], []).append(one)
    return list(found.values())


def shared_first(requests: Sequence[Request]) -> bool:
    """Whether all prompts begin with one block, as with a system prompt."""
    return len({one.hashes[0] for one in requests}) == 1


def drawn(requests: Sequence[Request], count: int, window_s: float, seconds: float, seed: int = 5) -> list[Request]:
    """Whole conversations that begin in the window, until there are `count` requests, in so many seconds."""
    begun = [one for one in requests if one.at_s <= window_s]
    groups = [
        group
        for group in conversations(begun, int(shared_first(requests)))
        if max(one.length for one in group) <= LONGEST
    ]
    random.Random(seed).shuffle(groups)  # noqa: S311
    found: list[Request] = []
    for group in groups:
        if len(found) >= count:
            break
        found += group
    found.sort(key=lambda one: one.at_s)
    first, last = found[0].at_s, found[-1].at_s
    scale = seconds / max(1e-9, last - first)
    return [
        Request((one.at_s - first) * scale, one.hashes, one.length, max(1, min(one.answer, ANSWER_MAX)))
        for one in found
    ]


def repeated(requests: Iterable[Request]) -> float:
    """The share of prompt blocks that an earlier prompt began with too: what an endless cache would find."""
    seen: set[int] = set()
    asked = found = 0
    for one in requests:
        new = next((at for at, block in enumerate(one.hashes) if block not in seen), len(one.hashes))
        asked, found = asked + len(one.hashes), found + new
        seen.update(one.hashes)
    return found / max(1, asked)


def common(one: Request, other: Request) -> int:
    """Tokens that both prompts begin with, by their hashes."""
    same = next(
        (at for at, pair in enumerate(zip(one.hashes, other.hashes, strict=False)) if pair[0] != pair[1]),
        min(len(one.hashes), len(other.hashes)),
    )
    return min(same * BLOCK, one.length, other.length)


def main() -> None:
    """Say what would be drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--requests", type=int, default=140)
    parser.add_argument("--window", type=float, default=900)
    parser.add_argument("--seconds", type=float, default=35)
    asked = parser.parse_args()
    found = drawn(read(asked.trace), asked.requests, asked.window, asked.seconds)
    tokens, distinct = sum(one.length for one in found), len({block for one in found for block in one.hashes}) * BLOCK
    print(f"{len(found)} requests, {tokens:,} tokens of prompts, {distinct:,} distinct, {repeated(found):.1%} repeat")


if __name__ == "__main__":
    main()
