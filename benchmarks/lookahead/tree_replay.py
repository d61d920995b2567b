"""Replays of recorded text with drafts of a shape: one request at a time, and batches in the time of an H200's steps.

`trees.py` measures with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from budgets import COSTS, JUDGING_MS, OUTPUT_TOKENS, TOKENS
from numpy.typing import NDArray
from tree_shapes import Node, grow, hits, line, rows
from windlass.bench.replay import Request
from windlass_lookahead import Draft, LookaheadCache, Options
from windlass_lookahead.policy import DEFAULTS, SpeculationPolicy

Floats = NDArray[np.float64]
BARS = {"served": None, "none": 0.0}
"""Where a chain ends: at `min_gain`, as a server's; or at the limit."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Drafts of a row: at most `limit` tokens of a chain, and `times` as many of a tree that is no deeper."""

    shape: str
    limit: int
    bar: str = "served"
    mode: int = 2
    times: int = 1

    def cache(self, warm: Sequence[Request]) -> LookaheadCache:
        """A fresh one that knows the warm requests."""
        cache = LookaheadCache(Options(copy_length=self.limit, cache_mode=self.mode, num_threads=1))
        for request in warm:
            cache.teach(request.prompt, request.output)
        return cache

    def draft(self, cache: LookaheadCache, name: str, chain: Draft) -> tuple[list[Node], list[int], int]:
        """A tree, the nodes of it that are verified, and the tokens that this takes."""
        single, nodes = line(chain), self.times * len(chain.tokens)
        if self.shape == "chain":
            return single, list(range(nodes)), nodes
        tree = grow(lambda path: cache.native.candidates(name, path), nodes, self.limit)
        if self.shape == "tree":
            return tree, list(range(len(tree))), len(tree)
        taken, spent = rows(tree, nodes)
        if sum(tree[index].probability for index in taken) > sum(node.probability for node in single):
            return tree, taken, spent
        return single, list(range(nodes)), nodes


def walk(arm: Arm, warm: Sequence[Request], requests: Sequence[Request]) -> Floats:
    """Of each request: steps, steps with a hit, accepted and verified drafts."""
    cache = arm.cache(warm)
    found = np.zeros((len(requests), 4))
    for place, request in enumerate(requests):
        cache.begin("row", request.prompt)
        cache.accept(["row"], [request.output[:1]])
        at, before_last = 1, request.output[:-1]
        while at < len(request.output):
            [chain] = cache.propose(["row"], [arm.limit], BARS[arm.bar])
            tree, taken, verified = arm.draft(cache, "row", chain)
            hit = hits(tree, taken, before_last, at)
            found[place] += (1, hit > 0, hit, verified)
            cache.native.accept(["row"], [request.output[at : at + hit + 1]], [hits(tree, taken, chain.tokens, 0)])
            at += hit + 1
        cache.finish("row")
    return found


@dataclass(slots=True)
class Row:
    """One request under way."""

    place: int
    output: list[int]
    began_ms: float
    at: int = 1
    tree: list[Node] = field(default_factory=list)
    expected: float = 0.0

    @property
    def name(self) -> str:
        """Its id."""
        return str(self.place)


class Batch:
    """Requests in flight on a device whose steps take what they took an H200; none is longer than what was measured.

    `arm.shape`: `chain`; `tree`, for whose nodes the policy decides; `fixed`, a tree that verifies as many as the
    policy chooses for the chain.
    """

    def __init__(self, arm: Arm, size: int, warm: Sequence[Request]) -> None:
        self._arm, self._size = arm, size
        self._cache = arm.cache(warm)
        self._policy = SpeculationPolicy(arm.limit, dict(DEFAULTS))
        self._now_ms = 0.0

    def run(self, requests: Sequence[Request]) -> Floats:
        """Of each request: milliseconds, tokens, and its steps and verified drafts."""
        found = np.zeros((len(requests), 4))
        waiting = iter(enumerate(requests))
        active: list[Row] = []
        while True:
            for place, request in waiting if len(active) < self._size else ():
                active.append(self._admit(place, request))
                if len(active) == self._size:
                    break
            if not active:
                return found
            for row, verified in self._step(active):
                found[row.place, 2:] += (1, verified)
                if row.at >= len(row.output):
                    found[row.place, :2] = (self._now_ms - row.began_ms, len(row.output) - 1)
                    self._cache.finish(row.name)
                    self._policy.finish(row.name)
            active = [row for row in active if row.at < len(row.output)]

    def _admit(self, place: int, request: Request) -> Row:
        row = Row(place, request.output[:OUTPUT_TOKENS], self._now_ms, expected=self._policy.new_request_tokens())
        self._cache.begin(row.name, request.prompt)
        self._cache.accept([row.name], [request.output[:1]])
        return row

    def _step(self, active: list[Row]) -> Iterator[tuple[Row, int]]:
        """Choose by the drafts of the step before, draft, and verify the likeliest of the batch."""
        names, limit = [row.name for row in active], self._arm.limit
        planned = [limit if self._policy.draft_budget(row.expected) else 0 for row in active]
        costs = (COSTS + JUDGING_MS)[len(active) : TOKENS[-1] + 1]
        costs[0] = COSTS[len(active)]
        number = self._policy.drafts_to_verify(names, planned, costs.tolist(), len(active), True, 0)
        chains = self._cache.propose(names, [limit] * len(active), BARS[self._arm.bar])
        if self._arm.shape == "fixed":
            number = min(number, sum(len(chain.tokens) for chain, plan in zip(chains, planned, strict=True) if plan))
        for row, chain in zip(active, chains, strict=True):
            self._draft(row, chain)
        taken = _likeliest([row.tree if plan else [] for row, plan in zip(active, planned, strict=True)], number)
        emitted: list[object] = []
        judged = [
            hits(row.tree, nodes, chain.tokens, 0) for row, nodes, chain in zip(active, taken, chains, strict=True)
        ]
        for row, nodes in zip(active, taken, strict=True):
            hit = hits(row.tree, nodes, row.output[:-1], row.at)
            emitted.append(row.output[row.at : row.at + hit + 1])
            row.at += hit + 1
        self._cache.native.accept(names, emitted, judged)
        verified = sum(map(len, taken))
        self._now_ms += float(costs[verified])
        self._policy.doorbell(1000 * float(costs[verified]), False, len(active))
        self._policy.completed(len(active), True, any(planned), verified)
        self._policy.update_planning(names, True)
        return zip(active, map(len, taken), strict=True)

    def _draft(self, row: Row, chain: Draft) -> None:
        """Draft, and let the policy see what the row's drafts are expected to save."""
        shape, limit = self._arm.shape, self._arm.limit
        native = self._cache.native
        row.tree = line(chain) if shape == "chain" else grow(lambda p: native.candidates(row.name, p), limit, limit)
        seen = [node.probability for node in row.tree] if shape == "tree" else chain.probabilities
        row.expected = self._policy.expected_tokens(row.expected, seen)
        self._policy.drafted(row.name, seen, row.expected)


def _likeliest(trees: Sequence[Sequence[Node]], number: int) -> list[list[int]]:
    """Of each tree the nodes that are among the likeliest of all; what stands above one is likelier."""
    every = [
        (-node.probability, node.depth, place, at) for place, one in enumerate(trees) for at, node in enumerate(one)
    ]
    taken: list[list[int]] = [[] for _ in trees]
    for _, _, place, at in sorted(every)[:number]:
        taken[place].append(at)
    return taken
