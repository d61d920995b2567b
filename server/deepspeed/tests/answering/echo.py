"""An engine of arithmetic at the seam: row `n` says the letters of its prompt's number, so that mixed-up rows show."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from windlass_deepspeed.decoder import Start
from windlass_deepspeed.metrics import Metrics
from windlass_testbed.waiting import HANG_S

EOS = 0
CONTEXT = 64


class Letters:
    """A tokenizer of characters: a token is a code point."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        return self.encode("".join(f"<{turn['role']}>{turn['content']}" for turn in messages))

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token) for token in tokens if token != EOS)


@dataclass
class Echo:
    """A decoder whose rows repeat their prompts, and then end or, when the prompt ends with `…`, go on for ever."""

    step_s: float = 0.0
    rows: dict[int, list[int]] = field(default_factory=dict)
    at: dict[int, int] = field(default_factory=dict)
    joins: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    broken: bool = False
    held: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.held.set()

    def join(self, starts: Sequence[Start]) -> Mapping[int, int]:
        assert not self.rows.keys() & {start.key for start in starts}
        self.joins.append(len(starts))
        for start in starts:
            self.rows[start.key], self.at[start.key] = list(start.prompt), 0
        return {start.key: self._say(start.key) for start in starts}

    def step(self) -> Mapping[int, int]:
        self.held.wait(HANG_S)
        if self.broken:
            raise ArithmeticError("the engine is broken on purpose")
        time.sleep(self.step_s)  # clock: the pace of an engine; no result depends on it
        self.steps.append(len(self.rows))
        return {key: self._say(key) for key in self.rows}

    def leave(self, keys: Collection[int]) -> None:
        for key in keys:
            del self.rows[key], self.at[key]

    def _say(self, key: int) -> int:
        prompt, at = self.rows[key], self.at[key]
        self.at[key] += 1
        if at < len(prompt):
            return prompt[at]
        return prompt[-1] if prompt[-1] == ord("…") else EOS


def figure(metrics: Metrics, name: str) -> float:
    """One line of the metrics."""
    lines = metrics.text().decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == name), 0.0)
