"""The placements of a replica over several nodes of one kind of card. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.parallel import Split, divides, group_splits

from windlass_api.plan.cards import Card
from windlass_api.plan.layout import Layout
from windlass_api.plan.options import Option, option
from windlass_api.plan.requested import Requested

LARGER_LOOKED_AT = 2  # times the cards of the first that fits: an even split may need more cards than an odd one


def over_nodes(facts: ModelFacts, found: Iterable[Card], requested: Requested) -> list[Option]:
    """On each kind of card, the splits over nodes in sizing's order, up to somewhat more cards than are needed."""
    return [one for card in found for one in _worth_a_look(_on(facts, card, requested))]


def _on(facts: ModelFacts, card: Card, requested: Requested) -> Iterator[Option]:
    layout = requested.layout
    nodes_max = min(layout.nodes_max, len(card.per_node))
    for split in _possible(facts, card.most_per_node, nodes_max, layout):
        if card.nodes_with(split.gpus_per_node) >= split.nodes >= layout.nodes_min:
            yield option(facts, card, (split.nodes, split.tp, split.pp), requested)


def _possible(facts: ModelFacts, per_node: int, nodes_max: int, layout: Layout) -> Iterable[Split]:
    """The splits that the request leaves open; what the user said of TP and PP is kept, however odd."""
    if layout.tp or layout.pp:
        splits: Iterable[Split] = _asked(facts, per_node, nodes_max, layout)
    else:
        splits = group_splits(facts, per_node, nodes_max)
    return (split for split in splits if layout.gpus in (None, split.gpus))


def _asked(facts: ModelFacts, per_node: int, nodes_max: int, layout: Layout) -> list[Split]:
    found = []
    for nodes in range(2, nodes_max + 1):
        for total in range(nodes, nodes * per_node + 1, nodes):
            tp = layout.tp or total // (layout.pp or 1)
            pp = layout.pp or total // tp if tp else 0
            if tp and tp * pp == total and divides(facts, tp) and pp <= facts.num_hidden_layers:
                found.append(Split(nodes, tp, pp))
    return sorted(found, key=lambda split: (split.gpus, split.nodes))


def _worth_a_look(options: Iterator[Option]) -> Iterator[Option]:
    """All that do not fit, for the refusal's words, until one fits; then those that are not much larger."""
    limit = None
    for one in options:
        if limit is not None and one.gpus > limit:
            return
        if limit is None and one.acceptable:
            limit = LARGER_LOOKED_AT * one.gpus
        yield one
