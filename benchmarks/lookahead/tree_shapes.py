"""Drafts of a row as a tree: growing one, what of it the record holds, and chains of their own that share a prefix.

Pure; `trees.py` measures with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from windlass_lookahead import Draft

Weighed = list[tuple[int, float]]
Candidates = Callable[[list[int]], tuple[Weighed, Weighed]]
"""What may follow a path below the text: the candidates of a chain, and the others that were seen there."""
OTHERS_LEAST = 0.02
"""Least probability that these others have together; guess."""


@dataclass(frozen=True, slots=True)
class Node:
    """A drafted token below another one, or below the text where `parent` is -1."""

    parent: int
    token: int
    depth: int
    probability: float
    """That it and all above it are accepted."""


def line(draft: Draft) -> list[Node]:
    """A chain as a tree."""
    return [Node(at - 1, token, at + 1, draft.probabilities[at]) for at, token in enumerate(draft.tokens)]


def shared(weighed: Weighed, others: Weighed) -> Weighed:
    """Probabilities that sum up to about 1 at most: a chain's candidates keep theirs, the others share the rest."""
    mass, rest = sum(p for _, p in weighed), sum(p for _, p in others)
    over, left = max(1.0, mass), max(OTHERS_LEAST, 1 - mass)
    scale = min(1.0, left / rest) if rest else 1.0
    return [(token, p / over) for token, p in weighed] + [(token, p * scale) for token, p in others]


def grow(candidates: Candidates, nodes: int, deepest: int) -> list[Node]:
    """The likeliest places below the text, best first: no other tree of so many is expected to save more tokens."""
    tree: list[Node] = []
    paths: dict[int, list[int]] = {-1: []}
    order = count()
    waiting: list[tuple[float, int, int, int]] = []

    def expand(at: int, together: float) -> None:
        for token, p in shared(*candidates(paths[at])):
            heapq.heappush(waiting, (-together * p, next(order), at, token))

    if nodes:
        expand(-1, 1.0)
    while waiting and len(tree) < nodes:
        negative, _, parent, token = heapq.heappop(waiting)
        path = paths[len(tree)] = [*paths[parent], token]
        tree.append(Node(parent, token, len(path), -negative))
        if len(path) < deepest and len(tree) < nodes:
            expand(len(tree) - 1, -negative)
    return tree


def hits(tree: Sequence[Node], taken: Sequence[int], record: Sequence[int], at: int) -> int:
    """How many tokens of the record from `at` on lie on one path of the taken nodes."""
    places = {(tree[index].parent, tree[index].token): index for index in taken}
    here, found = -1, 0
    while at + found < len(record) and (here, record[at + found]) in places:
        here, found = places[here, record[at + found]], found + 1
    return found


def rows(tree: Sequence[Node], budget: int) -> tuple[list[int], int]:
    """Nodes that chains of their own verify, and their tokens: a further row repeats the last token and its path."""
    taken: list[int] = []
    ends, spent = {-1}, 0
    while True:
        best, best_rate, best_cost = -1, 0.0, 0
        for index, node in enumerate(tree):
            if index in taken or (node.parent >= 0 and node.parent not in taken):
                continue
            cost = 1 if node.parent in ends else node.depth + 1
            if spent + cost <= budget and node.probability / cost > best_rate:
                best, best_rate, best_cost = index, node.probability / cost, cost
        if best < 0:
            return taken, spent
        ends = (ends - {tree[best].parent}) | {best}
        taken.append(best)
        spent += best_cost
