"""Which blocks host memory should forget: a recorded trace over a card's cache and policies of eviction. No GPU.

    python policies.py TRACE.jsonl [--card 800] [--host 1024,4096,16384]

A trace is JSON lines in Mooncake's format: `hash_ids` are the blocks of a prompt, 512 tokens each. The card forgets by
age. Host memory keeps what the card computed. A hit there counts when all blocks before it are on the card or there.
Sources: ARC, Megiddo and Modha, FAST 2003; the engine's own policies are LRU and ARC.
"""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

Row = OrderedDict[int, None]
REUSED_SHARE = 0.8


class Age:
    """Forgets what was used longest ago."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: blocks."""
        self.capacity, self.row = capacity, Row()

    def holds(self, block: int) -> bool:
        """Whether the block is there."""
        return block in self.row

    def used(self, blocks: Sequence[int]) -> None:
        """Blocks of one prompt, found; its first block becomes the youngest."""
        for block in reversed(blocks):
            if block in self.row:
                self.row.move_to_end(block)

    def keep(self, blocks: Iterable[int]) -> None:
        """Blocks of one prompt, computed."""
        for block in reversed(list(blocks)):
            self.row[block] = None
            self.row.move_to_end(block)
            if len(self.row) > self.capacity:
                self.row.popitem(last=False)


class Segments(Age):
    """Forgets what was never found before what was found once; the latter may take most of the room."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: blocks of both segments."""
        super().__init__(capacity)
        self.found = Row()

    def holds(self, block: int) -> bool:
        """Whether the block is in one of the segments."""
        return block in self.row or block in self.found

    def used(self, blocks: Sequence[int]) -> None:
        """Move what was found to the second segment."""
        for block in reversed(blocks):
            if self.holds(block):
                self.row.pop(block, None)
                self.found[block] = None
                self.found.move_to_end(block)
        while len(self.found) > REUSED_SHARE * self.capacity:
            self.row[self.found.popitem(last=False)[0]] = None

    def keep(self, blocks: Iterable[int]) -> None:
        """Into the first segment."""
        for block in reversed([block for block in blocks if not self.holds(block)]):
            self.row[block] = None
            while len(self.row) + len(self.found) > self.capacity:
                (self.row or self.found).popitem(last=False)


class Arc:
    """Two rows by whether a block was found; the keys that each forgot lately move the border between them."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: blocks."""
        self.capacity, self.target = capacity, 0.0
        self.once, self.again, self.lost_once, self.lost_again = Row(), Row(), Row(), Row()

    def holds(self, block: int) -> bool:
        """Whether the block is in one of the rows."""
        return block in self.once or block in self.again

    def used(self, blocks: Sequence[int]) -> None:
        """Move what was found to the second row."""
        for block in reversed(blocks):
            if self.holds(block):
                self.once.pop(block, None)
                self.again[block] = None
                self.again.move_to_end(block)

    def keep(self, blocks: Iterable[int]) -> None:
        """Into the first row, or the second where the block was forgotten lately."""
        for block in reversed([block for block in blocks if not self.holds(block)]):
            was_lost = block in self.lost_once or block in self.lost_again
            self._learn(block)
            if len(self.once) + len(self.again) >= self.capacity:
                self._forget()
            (self.again if was_lost else self.once)[block] = None

    def _learn(self, block: int) -> None:
        once, again = max(1, len(self.lost_once)), max(1, len(self.lost_again))
        if block in self.lost_once:
            self.target = min(self.capacity, self.target + max(1, again / once))
        elif block in self.lost_again:
            self.target = max(0, self.target - max(1, once / again))
        self.lost_once.pop(block, None)
        self.lost_again.pop(block, None)

    def _forget(self) -> None:
        is_once = bool(self.once) and (len(self.once) > self.target or not self.again)
        row, lost = (self.once, self.lost_once) if is_once else (self.again, self.lost_again)
        lost[row.popitem(last=False)[0]] = None
        if len(lost) > self.capacity:
            lost.popitem(last=False)


POLICIES = (Age, Segments, Arc)


def simulated(prompts: Sequence[Sequence[int]], card_blocks: int, host: Age | Arc) -> tuple[float, float]:
    """Shares of all blocks that were found on the card, and in host memory."""
    card, asked, on_card, in_host = Age(card_blocks), 0, 0, 0
    for blocks in prompts:
        first = next((at for at, block in enumerate(blocks) if not card.holds(block)), len(blocks))
        last = next((at for at in range(first, len(blocks)) if not host.holds(blocks[at])), len(blocks))
        asked, on_card, in_host = asked + len(blocks), on_card + first, in_host + last - first
        host.used(blocks[:last])
        host.keep(blocks[last:])
        card.keep(blocks)
    return on_card / max(1, asked), in_host / max(1, asked)


def main() -> None:
    """Print a table: halves of the trace, sizes of host memory, policies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--card", type=int, default=800)
    parser.add_argument("--host", default="1024,4096,16384")
    asked = parser.parse_args()
    prompts = [json.loads(line)["hash_ids"] for line in asked.trace.read_text().splitlines()]
    half = len(prompts) // 2
    print("| half | host blocks | " + " | ".join(policy.__name__ for policy in POLICIES) + " |")
    print("| --- " * (2 + len(POLICIES)) + "|")
    for name, part in (("first", prompts[:half]), ("second", prompts[half:])):
        for size in map(int, asked.host.split(",")):
            shares = [simulated(part, asked.card, policy(size))[1] for policy in POLICIES]
            print(f"| {name} | {size:,} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


if __name__ == "__main__":
    main()
