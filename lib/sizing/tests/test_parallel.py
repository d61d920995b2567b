"""Placements over several nodes: possible ones only, the documents' way first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement.parallel import Split, divides, group_splits, splits


def a_model(heads: int = 64, kv_heads: int = 8, layers: int = 80) -> ModelFacts:
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "num_hidden_layers": layers}
    fixed = {"hidden_size": heads * 64, "intermediate_size": 256, "vocab_size": 1000, "max_position_embeddings": 8192}
    return from_config({"model_type": "llama", **fixed, **sizes})


SIXTY_FOUR_HEADS = a_model()


def test_two_nodes_of_eight_take_tensor_parallelism_over_all_cards_first():
    """Of sixteen cards: TP 16, then TP 8 with a stage for each node."""
    sixteen = [split for split in group_splits(SIXTY_FOUR_HEADS, 8, 2) if split.gpus == 16]
    assert sixteen[:2] == [Split(2, 16, 1), Split(2, 8, 2)]


def test_heads_that_do_not_divide_go_over_stages():
    """Forty heads over two nodes of eight: TP 8 and two stages; TP 16 is not offered."""
    forty = a_model(heads=40)
    sixteen = [split for split in group_splits(forty, 8, 2) if split.gpus == 16]
    assert sixteen[0] == Split(2, 8, 2)
    assert Split(2, 16, 1) not in sixteen


def test_one_node_is_not_a_group():
    assert group_splits(SIXTY_FOUR_HEADS, 8, 1) == ()


def test_no_more_stages_than_layers():
    two_layers = a_model(heads=3, kv_heads=3, layers=2)
    assert all(split.pp <= 2 for split in group_splits(two_layers, 4, 4))


@given(st.integers(1, 128), st.integers(1, 8), st.integers(1, 16), st.integers(1, 8))
def test_every_split_is_possible_and_the_order_holds(heads, groups, per_node, nodes_max):
    """Heads divide, nodes give the same cards, totals rise, and nothing is told twice."""
    facts = a_model(heads * groups, heads)
    found = group_splits(facts, per_node, nodes_max)
    assert [split.gpus for split in found] == sorted(split.gpus for split in found)
    assert len(set(found)) == len(found)
    for split in found:
        assert divides(facts, split.tp)
        assert 2 <= split.nodes <= nodes_max
        assert split.gpus_per_node * split.nodes == split.tp * split.pp
        assert split.gpus_per_node <= per_node
        assert split.pp <= facts.num_hidden_layers


def test_no_more_ranks_than_heads_are_tried():
    """However many cards a node claims to have."""
    assert splits(SIXTY_FOUR_HEADS, 10**9) == [1, 2, 4, 8, 16, 32, 64]
