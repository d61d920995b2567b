"""Into how many GPUs a model can be split, and which splits are tried first. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.model.facts import ModelFacts


def divides(facts: ModelFacts, tp: int) -> bool:
    """Whether each rank gets as many heads, and KV heads split or repeat evenly (the engine refuses the rest)."""
    if facts.num_attention_heads % tp:
        return False
    if facts.latent_kv_dim:
        return True
    kv_heads = facts.num_key_value_heads
    return kv_heads % tp == 0 or tp % kv_heads == 0


def splits(facts: ModelFacts, most: int) -> list[int]:
    """The possible splits up to `most` GPUs: powers of two first, as links and kernels like them, then the others."""
    possible = [tp for tp in range(1, min(most, facts.num_attention_heads) + 1) if divides(facts, tp)]
    return sorted(possible, key=lambda tp: (tp & (tp - 1) != 0, tp))


@dataclass(frozen=True, slots=True)
class Split:
    """A placement over several nodes: ranks of TP × stages of PP, as many cards on every node."""

    nodes: int
    tp: int
    pp: int

    @property
    def gpus(self) -> int:
        """All cards of the group."""
        return self.tp * self.pp

    @property
    def gpus_per_node(self) -> int:
        """The cards that each node gives."""
        return self.gpus // self.nodes


def group_splits(facts: ModelFacts, per_node: int, nodes_max: int) -> tuple[Split, ...]:
    """The ways to spread the model over 2 to `nodes_max` nodes of up to `per_node` cards, the preferred ones first.

    Fewest cards first. With as many cards, TP over all of them where the heads divide, then TP inside a node and a
    stage of PP for each node (or several stages on one, where the heads divide by a part of its cards only); fewer
    nodes before more. Whether a split fits the cards is the caller's question to `formula.demand`.
    """
    shapes = [(nodes, cards) for nodes in range(2, nodes_max + 1) for cards in range(1, per_node + 1)]
    found = {split for nodes, cards in shapes for split in _spread(facts, nodes, cards)}
    return tuple(sorted(found, key=_group_preference))


def _spread(facts: ModelFacts, nodes: int, cards: int) -> list[Split]:
    """Every split over exactly so many nodes and cards a node."""
    total = nodes * cards
    inside = [tp for tp in range(1, cards + 1) if cards % tp == 0]
    ranks = [tp for tp in (*inside, total) if divides(facts, tp)]
    return [Split(nodes, tp, total // tp) for tp in ranks if total // tp <= facts.num_hidden_layers]


def _group_preference(split: Split) -> tuple[int, bool, int, int]:
    return split.gpus, split.pp > 1, split.nodes, split.pp
