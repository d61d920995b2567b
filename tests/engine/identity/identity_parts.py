"""What is asked of which engine, and what the answers must show. Pure: the engines are `identity_engine`'s."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from chi_square import p_value

Prompt = list[int]
Outputs = list[list[int]]
"""Token ids, one list an output."""

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 64
K = 6
MUST_HIT = ("repeat", "code-edit")
LEAST_ACCEPTED = 0.3
LEAST_P = 1e-4
LEAST_DRAFTS = 0.5
"""Drafted tokens a draw, of which some are accepted and some are not: else the distribution was not put to a test."""
DRAWN_TOKENS = 4
"""The first comes with the prompt and was never a draft; the three behind it are compared."""
PREEMPTED_ROWS, PREEMPTED_PROMPT = 12, 300
HOW = 1
"""How the engines are asked: to be raised when it changes, so that no older answer is taken for a new one."""
STEP_COST_S = {1: 0.5, 4: 0.17, 16: 0.09}
TOKEN_COST_S, WITH_DRAFTS = 0.0003, 0.6


@dataclass(frozen=True, slots=True)
class Part:
    """One engine's work on one set of prompts, which can be kept and need not be done again."""

    kind: str
    """`decode`, `preempted` or `draws`."""
    mode: int | None
    """None: without lookahead."""
    workload: str = ""

    @property
    def engine(self) -> tuple[int | None, bool]:
        """Its mode, and whether it is short of room; parts with the same one can follow one another in a process."""
        return self.mode, self.kind == "preempted" and self.mode is not None

    @property
    def name(self) -> str:
        """For a person."""
        return f"{self.workload or self.kind} {'without' if self.mode is None else f'mode {self.mode}'}"

    @property
    def base(self) -> Part:
        """The part that it is compared with."""
        return Part(self.kind, None, self.workload)


@dataclass(frozen=True, slots=True)
class Question:
    """What a process needs to do a part."""

    part: Part
    prompts: list[Prompt]
    batches: list[int]
    draws: int = 0

    @property
    def weight(self) -> float:
        """Seconds of one core that it takes here, roughly: they order the parts and tell how much is left."""
        if self.part.kind == "draws":
            return self.draws * 0.02
        read = sum(map(len, self.prompts)) * TOKEN_COST_S
        steps = len(self.prompts) * sum(STEP_COST_S.get(batch, 0.1) for batch in self.batches)
        return read + steps * (1 if self.part.mode is None else WITH_DRAFTS)

    def fingerprint(self, makers: str) -> str:
        """Changes when an answer may change. `makers`: versions of what answers."""
        asked = [asdict(self.part), self.prompts, self.batches, self.draws, OUTPUT_TOKENS, K, HOW, makers]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out, for each batch size."""

    BY_BATCH: ClassVar = ("outputs", "drafted", "accepted")

    outputs: dict[int, Outputs]
    drafted: dict[int, int] = field(default_factory=dict)
    """Tokens that were proposed and verified."""
    accepted: dict[int, int] = field(default_factory=dict)
    preempted: int = 0
    cpu_s: float = 0.0
    """Of the process, with what the start of its engine took when that was needed."""


@dataclass
class Line:
    """One row of the table."""

    workload: str
    mode: int
    batch: int
    rows: int = 0
    tokens: int = 0
    different: int = 0
    accepted: float = 0.0
    """Share of the tokens that were accepted drafts."""
    drafted: int = 0
    preempted: int = 0
    first: str = ""
    """The first difference, for who looks for its cause."""

    @property
    def text(self) -> str:
        """For a person."""
        what = (
            f"{self.workload:24} mode {self.mode} batch {self.batch:2}: {self.rows:3} outputs, {self.different} differ"
        )
        more = f", preempted {self.preempted} times" if self.preempted else ""
        return f"{what}, {self.accepted:.0%} of the tokens are accepted drafts, {self.drafted} drafted{more}"

    @property
    def fails(self) -> str:
        """Why this line is red, empty when it is not."""
        where = f"{self.workload}, mode {self.mode}, batch {self.batch}"
        if self.different:
            return f"{where}: {self.different} of {self.rows} outputs differ; {self.first}"
        if self.workload.startswith(MUST_HIT) and self.accepted < LEAST_ACCEPTED:
            return f"{where}: only {self.accepted:.0%} of the tokens are accepted drafts"
        if self.workload == "preempted" and not self.preempted:
            return f"{where}: nothing was preempted"
        return ""


def questions(
    workloads: Mapping[str, list[Prompt]], modes: Sequence[int], batches: list[int], draws: int, *, whole: bool
) -> list[Question]:
    """All parts; without the preempted ones and the draws when not `whole`."""
    arms = [None, *modes]
    asked = [Question(Part("decode", mode, name), workloads[name], batches) for mode in arms for name in workloads]
    if whole:
        few = crowd(workloads)
        asked += [Question(Part("preempted", mode), few, [len(few)]) for mode in arms]
        one = next(iter(workloads.values()))[0][-64:]
        asked += [Question(Part("draws", mode), [one], [64], draws) for mode in (None, max(modes))]
    return asked


def crowd(workloads: Mapping[str, list[Prompt]]) -> list[Prompt]:
    """Prompts of one length, cut from the text of all, so that it is known how many find room."""
    text = [token for prompts in workloads.values() for prompt in prompts[:PREEMPTED_ROWS] for token in prompt]
    text *= 1 + PREEMPTED_ROWS * PREEMPTED_PROMPT // len(text)
    return [text[at * PREEMPTED_PROMPT : (at + 1) * PREEMPTED_PROMPT] for at in range(PREEMPTED_ROWS)]


def lines(part: Part, base: Answer, found: Answer) -> Iterator[Line]:
    """The rows of the table that a part and its base give, one a batch size."""
    for batch, outputs in found.outputs.items():
        line = Line(part.workload or part.kind, part.mode or 0, batch, len(outputs), sum(map(len, outputs)))
        pairs = list(zip(base.outputs[batch], outputs, strict=True))
        differ = [row for row, (one, other) in enumerate(pairs) if one != other]
        line.different, line.preempted = len(differ), found.preempted
        line.drafted, line.accepted = found.drafted[batch], found.accepted[batch] / line.tokens
        if differ:
            line.first = f"output {differ[0]} {_first(*pairs[differ[0]])}"
        yield line


def _first(one: list[int], other: list[int]) -> str:
    for place, (right, wrong) in enumerate(zip(one, other, strict=False)):
        if right != wrong:
            return f"has {wrong} for {right} at token {place}"
    return f"has {len(other)} tokens for {len(one)}"


def distribution(base: Answer, found: Answer) -> dict[str, float]:
    """Probabilities that the sampled tokens, place by place and as a whole, are of one distribution."""
    ((batch, one),) = base.outputs.items()
    two = found.outputs[batch]
    chances = {
        f"p{place}": p_value([row[place] for row in one], [row[place] for row in two])
        for place in range(1, DRAWN_TOKENS)
    }
    chances["whole"] = p_value([tuple(row) for row in one], [tuple(row) for row in two])
    return chances | {"draws": len(two), "drafted": found.drafted[batch], "accepted": found.accepted[batch]}


def unlike(chances: Mapping[str, float]) -> str:
    """Why the draws are red, empty when they are not."""
    if chances["drafted"] < LEAST_DRAFTS * chances["draws"] or not 0 < chances["accepted"] < chances["drafted"]:
        return f"the draws met too few drafts to say anything: {dict(chances)}"
    least = min(value for name, value in chances.items() if name[0] == "p" or name == "whole")
    return f"the distribution differs: {dict(chances)}" if least < LEAST_P else ""
