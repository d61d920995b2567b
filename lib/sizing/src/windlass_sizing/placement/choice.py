"""Chooses cards, TP, PP and nodes for a model from the GPU types that are offered: what `windlass plan` answers.

The operator chooses with the same formula and the same splits from the nodes of its cluster. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement import words
from windlass_sizing.placement.advice import FLAGS, advise, gains, one_gpu_suffices
from windlass_sizing.placement.formula import (
    DEFAULT_MAX_MODEL_LEN,
    Demand,
    Serving,
    demand,
    requests_at_once,
    seed_demand_gib,
)
from windlass_sizing.placement.parallel import Split, group_splits, splits
from windlass_sizing.quantization.decision import decide, of_facts
from windlass_sizing.quantization.question import Card


@dataclass(frozen=True, slots=True)
class Offer:
    """Cards of one type: how large, and how many there are on a node and in all."""

    name: str
    real_gib: float
    nominal_gib: float  # as the rule of thumb takes it
    capability: tuple[int, int] | None = None
    per_node: int = 8
    nodes: int = 1
    gpus_max: int | None = None  # in all, where fewer may be taken than there are
    alone: bool = False  # a slice of a card: a second one cannot help it


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to place the model on one type of card."""

    offer: Offer
    nodes: int
    serving: Serving
    need: Demand
    seed_gib: float
    requests: int  # of the whole context that the KV cache holds at once

    @property
    def gpus(self) -> int:
        """All cards."""
        return self.serving.tp * self.serving.pp

    @property
    def fits(self) -> bool:
        """Whether every card holds its share, by our figure."""
        return self.need.per_gpu_gib <= self.offer.real_gib

    @property
    def meets_rule(self) -> bool:
        """Whether the cards together hold what the rule of thumb asks for."""
        return self.seed_gib <= self.offer.nominal_gib * self.gpus

    @property
    def cost(self) -> tuple[float, int, int, int, int]:
        """Less memory taken first, then fewer cards, nodes and stages; odd splits after powers of two."""
        return self.offer.real_gib * self.gpus, self.gpus, self.nodes, self.is_odd, self.serving.pp

    @property
    def is_odd(self) -> bool:
        """Whether its TP is no power of two: taken where no other fits."""
        return self.serving.tp & (self.serving.tp - 1) != 0

    def sentence(self) -> str:
        """The placement and its need, for people."""
        where = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        return (
            f"{self.gpus} × {self.offer.name}{where}: {self.need.per_gpu_gib:.2f} GiB needed on each, "
            f"which has {self.offer.real_gib:.2f} GiB"
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The chosen placement or, when nothing fits, the largest that was tried; with its reasons."""

    choice: Choice
    fits: bool
    because: tuple[str, ...]
    advice: tuple[str, ...]


def default_length(facts: ModelFacts) -> int:
    """The context that is served when none is asked for: the model's own, cut to the documents' default."""
    return min(facts.max_model_len, DEFAULT_MAX_MODEL_LEN)


def choose(facts: ModelFacts, offers: Sequence[Offer], serving: Serving, tp: int | None = None) -> Answer | None:
    """The cheapest placement that fits, by our figure and by the rule of thumb; None when there is none to try.

    On one node where one holds it, with a TP that is a power of two where one fits: as the operator chooses.

    A TP that is asked for is kept, and the rule of thumb is not held against it: it is the user's to be tighter.
    """
    every = [choice for offer in offers for choice in placements(facts, offer, serving, tp)]
    if not every:
        return None
    fitting = [choice for choice in every if choice.fits and (tp or choice.meets_rule)]
    if fitting:
        near = [choice for choice in fitting if choice.nodes == 1] or fitting
        powers = [choice for choice in near if not choice.is_odd]
        chosen = min(powers or near, key=lambda choice: choice.cost)
    else:
        chosen = min(every, key=lambda choice: (not choice.fits, choice.need.per_gpu_gib / choice.offer.real_gib))
    remedies = (gains if fitting else advise)(facts, chosen.serving, chosen.offer, words=FLAGS)
    tight = [choice for choice in every if choice.fits and not choice.meets_rule and choice.cost < chosen.cost]
    because = (*_because(facts, chosen), *_rule(chosen, tight, bool(fitting)), *_too_many(facts, chosen, tp))
    return Answer(chosen, bool(fitting), because, remedies)


def placements(facts: ModelFacts, offer: Offer, serving: Serving, tp: int | None = None) -> list[Choice]:
    """Every way to place the model on these cards, single nodes before groups; none where the method cannot be.

    The engine's limits are left to the caller, who offers the cards: a user may set them aside.
    """
    card = Card(offer.name, offer.capability)
    decision = decide(serving.quantization, serving.dtype, card, *of_facts(facts), beyond_limits=True)
    if decision.problem:
        return []
    settled = replace(serving, quantization=decision.quantization, dtype=decision.dtype or serving.dtype)
    most = min(offer.per_node, offer.gpus_max or offer.per_node)
    ways = [Split(1, one, 1) for one in ([tp] if tp and tp <= most else splits(facts, most) if not tp else [])]
    ways += group_splits(facts, offer.per_node, offer.nodes)
    return [
        _choice(facts, offer, settled, way)
        for way in ways
        if (not tp or way.tp == tp) and way.gpus <= (offer.gpus_max or way.gpus)
    ]


def alternatives(facts: ModelFacts, offers: Sequence[Offer], chosen: Choice) -> tuple[str, ...]:
    """The smallest placement on each other type of card."""
    free = replace(chosen.serving, tp=1, pp=1)
    others = [offer for offer in offers if offer.name != chosen.offer.name and _is_able(facts, offer, free)]
    answers = [choose(facts, [offer], free) for offer in others]
    found = sorted((answer.choice for answer in answers if answer and answer.fits), key=lambda choice: choice.cost)
    return tuple(choice.sentence() for choice in found)


def _is_able(facts: ModelFacts, offer: Offer, serving: Serving) -> bool:
    """Whether the card is within the engine's limits: what nobody named is advised only so."""
    asked = serving.quantization, serving.dtype, Card(offer.name, offer.capability)
    return decide(*asked, *of_facts(facts)).problem is None


def _choice(facts: ModelFacts, offer: Offer, serving: Serving, way: Split) -> Choice:
    split = replace(serving, tp=way.tp, pp=way.pp)
    requests = requests_at_once(facts, split, offer.real_gib)
    return Choice(offer, way.nodes, split, demand(facts, split), seed_demand_gib(facts, split), requests)


def _because(facts: ModelFacts, choice: Choice) -> tuple[str, ...]:
    need, serving = choice.need, choice.serving
    stages = (f"{facts.num_hidden_layers} layers over {serving.pp} stages",) if serving.pp > 1 else ()
    return (
        *words.figures(facts, need, serving),
        *_length(facts, serving),
        *_steps(serving),
        f"{choice.sentence()}: {'fits' if choice.fits else 'does not fit'}",
        *((words.at_once(choice.requests, serving),) if choice.fits else ()),
        *words.heads_over(facts, serving.tp),
        *stages,
    )


def _rule(chosen: Choice, tight: Sequence[Choice], fits: bool) -> tuple[str, ...]:
    """The rule of thumb where it decided: why not a cheaper placement, or why none at all."""
    if chosen.fits and not fits:
        have = f"{chosen.offer.nominal_gib * chosen.gpus:.2f} GiB by name do not hold that"
        overrule = f"--tensor-parallel-size {chosen.serving.tp} overrules it"
        return (f"{words.rule_of_thumb(chosen.seed_gib)}; {have}; {overrule}",)
    cheapest = min(tight, key=lambda choice: choice.cost, default=None)
    if not fits or cheapest is None:
        return ()
    return (f"not {cheapest.gpus} × {cheapest.offer.name}: {words.rule_of_thumb(cheapest.seed_gib)}",)


def _too_many(facts: ModelFacts, chosen: Choice, tp: int | None) -> tuple[str, ...]:
    if not tp or not one_gpu_suffices(facts, chosen.serving, chosen.offer):
        return ()
    return (words.one_suffices(chosen.serving, "leave --tensor-parallel-size out"),)


def _length(facts: ModelFacts, serving: Serving) -> tuple[str, ...]:
    if serving.max_model_len >= facts.max_model_len:
        return ()
    return (f"context {serving.max_model_len} of the model's own {facts.max_model_len} tokens",)


def _steps(serving: Serving) -> tuple[str, ...]:
    """What must be said at the start for the figure to hold: left alone, a step is as long as the context."""
    if serving.max_model_len <= serving.tokens_a_step:
        return ()
    return (f"prompts are read in steps of {serving.tokens_a_step}: --max-num-batched-tokens {serving.tokens_a_step}",)
