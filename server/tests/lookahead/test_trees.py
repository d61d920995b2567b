"""A tree of drafts: which places it holds, what a record accepts of it, rows that share a prefix, and ratios."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from windlass.bench.replay import Request
from windlass_lookahead import Draft

BENCHMARKS = Path(__file__).parents[3] / "benchmarks/lookahead"
NEXT = {
    (): ([(1, 0.6)], [(2, 0.4)]),
    (1,): ([(3, 0.5), (4, 0.3)], []),
    (2,): ([(5, 0.9)], []),
}
"""Candidates by path: of a chain, and others."""


@pytest.fixture(scope="module")
def programs():
    """The programs find their modules beside themselves, and no other test does."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import tree_replay
        import tree_shapes
        import trees

        yield SimpleNamespace(shapes=tree_shapes, replay=tree_replay, trees=trees)
    for name in {"budgets", "replay", "tree_replay", "tree_shapes", "trees"} - before:
        sys.modules.pop(name, None)


@pytest.fixture
def tree(programs):
    return programs.shapes.grow(lambda path: NEXT.get(tuple(path), ([], [])), 5, 16)


def test_a_tree_holds_the_likeliest_places_best_first(tree):
    """A place is as likely as all tokens on its path together."""
    assert [(node.parent, node.token) for node in tree] == [(-1, 1), (-1, 2), (1, 5), (0, 3), (0, 4)]
    assert pytest.approx([node.probability for node in tree]) == [0.6, 0.4, 0.36, 0.3, 0.18]


@pytest.mark.parametrize(("nodes", "deepest", "drafted"), [(0, 16, []), (2, 16, [1, 2]), (5, 1, [1, 2])])
def test_a_tree_keeps_to_its_limits(programs, nodes, deepest, drafted):
    """As many nodes as are asked for, none below the deepest place."""
    tree = programs.shapes.grow(lambda path: NEXT.get(tuple(path), ([], [])), nodes, deepest)
    assert drafted == [node.token for node in tree]


def test_other_candidates_share_what_a_chains_leave(programs):
    """The core never learned of the others by themselves, so their sum may be far above 1."""
    shared = programs.shapes.shared([(1, 0.6)], [(2, 0.8), (3, 0.8)])
    assert [(1, 0.6), (2, pytest.approx(0.2)), (3, pytest.approx(0.2))] == shared


@pytest.mark.parametrize(
    ("record", "taken", "found"),
    [([1, 4, 9], range(5), 2), ([2, 5], range(5), 2), ([1, 4, 9], range(4), 1), ([7], range(5), 0), ([], range(5), 0)],
)
def test_a_record_accepts_along_one_path_of_the_taken_nodes(programs, tree, record, taken, found):
    """A node that is not taken ends it."""
    assert found == programs.shapes.hits(tree, list(taken), record, 0)


def test_a_further_row_pays_for_the_last_token_and_its_path(programs, tree):
    """1, then 3 below it, cost a token each; a row of 2 costs two, and 5 below it one."""
    assert [programs.shapes.rows(tree, budget) for budget in (1, 2, 5)] == [([0], 1), ([0, 3], 2), ([0, 3, 1, 2], 5)]


def test_a_chain_is_a_tree_of_one_path(programs):
    """Each token stands below the one before it."""
    line = programs.shapes.line(Draft([7, 8], [0.5, 0.2]))
    assert [(node.parent, node.token, node.depth) for node in line] == [(-1, 7, 1), (0, 8, 2)]


def test_the_likeliest_of_a_batch_are_taken(programs, tree):
    """A row with unlikely drafts verifies none of them."""
    poor = programs.shapes.line(Draft([7, 8], [0.37, 0.01]))
    assert programs.replay._likeliest([tree, poor], 3) == [[0, 1], [0]]


def test_a_ratio_is_of_totals_and_every_workload_weighs_the_same(programs):
    """Requests without a spread have an interval without width."""
    ones = np.ones(4)
    found = programs.trees.ratio([((ones, ones), (4 * ones, ones)), ((ones, ones), (ones, ones))])
    assert pytest.approx((2.0, 2.0, 2.0)) == found


@pytest.mark.parametrize("shape", ["chain", "tree", "rows"])
def test_a_walk_emits_every_token_once(programs, shape):
    """Steps and accepted drafts add up to the text behind its first token."""
    requests = [Request([5, 6, 7, 8] * 4, [5, 6, 7, 8] * 6), Request([9, 5, 6], [7, 8, 5, 6, 7, 1])]
    walked = programs.replay.walk(programs.replay.Arm(shape, 4, "none"), [], requests)
    assert (walked[:, 0] + walked[:, 2]).tolist() == [23, 5]
    assert walked[0, 2] > 0


@pytest.mark.parametrize("shape", ["chain", "tree", "fixed"])
def test_a_batch_emits_every_token_once(programs, shape):
    """Two of three requests at a time; each has its time and its steps."""
    requests = [Request([5, 6, 7, 8] * 4, [5, 6, 7, 8] * 6)] * 3
    ran = programs.replay.Batch(programs.replay.Arm(shape, 6, "none"), 2, []).run(requests)
    assert ran[:, 1].tolist() == [23, 23, 23]
    assert (ran[:, 0] >= 3 * ran[:, 2]).all()
    assert (ran[:, 2] < 23).all()
