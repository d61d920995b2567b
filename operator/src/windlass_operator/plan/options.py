"""The placements that a model could have on the cluster's cards, with what each needs. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from windlass_sizing import advice, formula
from windlass_sizing.facts import ModelFacts
from windlass_sizing.formula import Demand, Serving
from windlass_sizing.methods import effective
from windlass_sizing.parallel import splits

from windlass_operator.plan.cards import Card
from windlass_operator.plan.wishes import Wishes

ALTERNATIVES_MAX = 7


@dataclass(frozen=True, slots=True)
class Option:
    """One way to place the model: this many of this card, split so."""

    card: Card
    gpus: int
    serving: Serving
    need: Demand
    seed_gib: float

    @property
    def fits(self) -> bool:
        """Whether our figure fits each card; a card of unknown memory is not judged."""
        return self.card.real_gib is None or self.need.per_gpu_gib <= self.card.real_gib

    @property
    def fits_quick_formula(self) -> bool:
        """Whether the quick formula agrees; a card of unknown memory never does, so it must be asked for by count."""
        return self.card.nominal_gib is not None and self.seed_gib <= self.card.nominal_gib * self.gpus

    @property
    def cost(self) -> tuple[float, int, str]:
        """Less memory taken first, then fewer cards, then the name."""
        return (self.card.real_gib or 0) * self.gpus, self.gpus, self.card.product

    def sentence(self) -> str:
        """The placement and its need, for people."""
        have = f"{self.card.real_gib:.2f} GiB" if self.card.real_gib else "unknown memory"
        return f"{self.gpus} × {self.card.name}: {self.need.per_gpu_gib:.2f} GiB needed on each, which has {have}"


def options(facts: ModelFacts, found: Iterable[Card], wishes: Wishes) -> list[Option]:
    """Every count and split on every kind of card that the wishes leave open."""
    return [
        _option(facts, card, gpus, wishes)
        for card in found
        for gpus in ([wishes.gpus] if wishes.gpus else splits(facts, card.most_per_node))
        if gpus <= card.most_per_node
    ]


def preferred(fitting: list[Option]) -> Option:
    """The cheapest; odd splits only where no power of two fits."""
    powers = [option for option in fitting if option.gpus & (option.gpus - 1) == 0]
    return min(powers or fitting, key=lambda option: option.cost)


def alternatives(fitting: list[Option], chosen: Option, facts: ModelFacts) -> tuple[str, ...]:
    """The smallest placement on each other kind of card, then the documents' quick table."""
    smallest: dict[str, Option] = {}
    for option in sorted(fitting, key=lambda option: option.cost):
        smallest.setdefault(option.card.product, option)
    others = [option.sentence() for product, option in smallest.items() if product != chosen.card.product]
    quick = advice.quick_table(facts.params)
    return (*others[:ALTERNATIVES_MAX], *((f"quick table: {quick}",) if quick else ()))


def _option(facts: ModelFacts, card: Card, gpus: int, wishes: Wishes) -> Option:
    tp = wishes.tp or gpus
    serving = replace(
        wishes.serving, tp=tp, pp=gpus // tp, quantization=effective(wishes.quantization, card.capability)
    )
    return Option(card, gpus, serving, formula.demand(facts, serving), formula.seed_demand_gib(facts, serving))
