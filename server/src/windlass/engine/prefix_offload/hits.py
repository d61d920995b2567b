"""Counts the blocks of prompts by where they came from: the seed's `[HIT CNT]` line. Pure, but for `HitLogger`."""

from __future__ import annotations

from dataclasses import dataclass

EVERY_BLOCKS = 100


@dataclass(slots=True)
class HitCount:
    """Tokens of prompts since the start: all, found on the card, and found in host memory."""

    block_tokens: int
    asked: int = 0
    card: int = 0
    host: int = 0

    def add(self, asked: int, card: int, host: int) -> str | None:
        """Count the prompts of one step; the line, where another 100 blocks are complete."""
        before = self._blocks(self.asked) // EVERY_BLOCKS
        self.asked, self.card, self.host = self.asked + asked, self.card + card, self.host + host
        return self.line if self._blocks(self.asked) // EVERY_BLOCKS > before else None

    @property
    def line(self) -> str:
        """In the seed's form, in blocks."""
        total, card, host = (self._blocks(tokens) for tokens in (self.asked, self.card, self.host))
        rest = max(0, total - card - host)
        parts = {"gpu": card, "cpu": host, "not hit": rest}
        shown = [f"{name}: {part} ({100 * part / total if total else 0:.2f}%)" for name, part in parts.items()]
        return f"[HIT CNT] total: {total}, {' '.join(shown)}"

    def _blocks(self, tokens: int) -> int:
        return tokens // self.block_tokens
