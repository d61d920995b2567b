"""The placements on one node that a model could have on the cluster's cards, with what each needs. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import formula
from windlass_sizing.placement.formula import Demand, Serving
from windlass_sizing.placement.parallel import splits

from windlass_api.plan.cards import Card
from windlass_api.plan.model import Refusal
from windlass_api.plan.quantize import settle
from windlass_api.plan.requested import Requested

ALTERNATIVES_MAX = 7


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place the model: so many of this card, on so many nodes, split so."""

    card: Card
    serving: Serving
    need: Demand  # of one engine
    seed_gib: float  # of all engines
    workers: int = 1
    nodes: int = 1
    vouched: bool = False  # the user gave the number of cards
    why: str = ""  # of the method in effect
    sp: int = 1  # times TP × PP cards of an engine that share each long prompt

    @property
    def gpus(self) -> int:
        """All cards of a replica."""
        return self.serving.tp * self.serving.pp * self.workers * self.sp

    @property
    def fits(self) -> bool:
        """Whether our figure fits each card; a card of unknown memory is not judged."""
        return self.card.real_gib is None or self.need.per_gpu_gib <= self.card.real_gib

    @property
    def acceptable(self) -> bool:
        """Whether it may be chosen. A count that the user gave is theirs to be tighter than the rule of thumb."""
        return self.fits and (self.vouched or self.meets_rule)

    @property
    def meets_rule(self) -> bool:
        """Whether the rule of thumb agrees; a card of unknown memory never does, so it must be asked for by count."""
        return self.card.nominal_gib is not None and self.seed_gib <= self.card.nominal_gib * self.gpus

    @property
    def cost(self) -> tuple[float, int, str]:
        """Less memory taken first, then fewer cards, then the name."""
        return (self.card.real_gib or 0) * self.gpus, self.gpus, self.card.product

    def where(self) -> str:
        """The placement, for people."""
        if self.nodes == 1:
            return f"{self.gpus} × {self.card.name}"
        stages = f", PP {self.serving.pp}" if self.serving.pp > 1 else ""
        return f"{self.nodes} nodes × {self.gpus // self.nodes} × {self.card.name}, TP {self.serving.tp}{stages}"

    def sentence(self) -> str:
        """The placement and its need, for people."""
        have = f"{self.card.real_gib:.2f} GiB" if self.card.real_gib else "unknown memory"
        return f"{self.where()}: {self.need.per_gpu_gib:.2f} GiB needed on each, which has {have}"


def option(facts: ModelFacts, card: Card, split: tuple[int, int, int], requested: Requested) -> Option:
    """The option of this split: nodes, TP, PP."""
    nodes, tp, pp = split
    layout = requested.layout
    found = settle(requested.serving, facts, card.sized, requested.engine)
    settled, why = (requested.serving, "") if isinstance(found, Refusal) else found
    serving = replace(settled, tp=tp, pp=pp)
    seed_gib = formula.seed_demand_gib(facts, serving) * layout.copies
    need = formula.demand(facts, serving)
    return Option(card, serving, need, seed_gib, layout.workers, nodes, layout.counted, why, layout.sp)


def on_one_node(facts: ModelFacts, found: Iterable[Card], requested: Requested) -> list[Option]:
    """Every count and split on one node, on every kind of card, that the request leaves open."""
    return [option(facts, card, (1, tp, pp), requested) for card in found for tp, pp in _splits(facts, card, requested)]


def _splits(facts: ModelFacts, card: Card, requested: Requested) -> list[tuple[int, int]]:
    """TP and PP of one engine."""
    layout = requested.layout
    if layout.gpu_count is None:
        return [(tp, 1) for tp in splits(facts, card.most_per_node // layout.copies)]
    if layout.gpu_count > card.most_per_node:
        return []
    each = layout.gpu_count // layout.copies
    tp = layout.tp or each // (layout.pp or 1)
    return [(tp, each // tp)]


def preferred(fitting: list[Option]) -> Option:
    """The cheapest; odd splits only where no power of two fits. The first one of equals."""
    powers = [option for option in fitting if option.serving.tp & (option.serving.tp - 1) == 0]
    return min(powers or fitting, key=lambda option: option.cost)


def alternatives(fitting: list[Option], chosen: Option) -> tuple[str, ...]:
    """The smallest placement on each other kind of card, then another split of the chosen nodes."""
    smallest: dict[str, Option] = {}
    for one in sorted(fitting, key=lambda option: option.cost):
        smallest.setdefault(one.card.product, one)
    others = [one.sentence() for product, one in smallest.items() if product != chosen.card.product]
    again = [one.sentence() for one in fitting if _other_split(one, chosen)]
    return (*others[:ALTERNATIVES_MAX], *again[:ALTERNATIVES_MAX])


def _other_split(one: Option, chosen: Option) -> bool:
    """Whether it is another way over as many nodes of the same cards."""
    same = (one.card, one.nodes, one.gpus) == (chosen.card, chosen.nodes, chosen.gpus)
    return same and chosen.nodes > 1 and one != chosen
