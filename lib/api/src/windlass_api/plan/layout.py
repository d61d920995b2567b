"""How the user wants a replica laid out: GPUs, TP, stages, engines, nodes, and whether they agree. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.parallel import divides

from windlass_api.crd.pods import NODES_MAX
from windlass_api.plan.model import Refusal
from windlass_api.plan.start import Start

COUNTS_SHOWN = 64
DISTRIBUTED, STANDARD = "Distributed", "Standard"
SPLIT = "sequence-parallel-size"


@dataclass(frozen=True, slots=True)
class Layout:
    """What is asked for; None is for the plan to choose."""

    gpus: int | None  # of a replica, all its engines together
    tp: int | None
    pp: int | None
    workers: int  # equal engines in one pod
    nodes_min: int
    nodes_max: int
    sp: int = 1  # times TP × PP cards that share each long prompt, each with all weights

    @property
    def counted(self) -> bool:
        """Whether the user vouches for the number of cards."""
        return bool(self.gpus or self.tp or self.pp)

    @property
    def gpu_count(self) -> int | None:
        """The cards of a replica on one node, where any number is asked for."""
        if self.gpus is not None or not (self.tp or self.pp):
            return self.gpus
        return (self.tp or 1) * (self.pp or 1) * self.copies

    @property
    def copies(self) -> int:
        """How often the weights lie on the cards: cards are TP × PP × this."""
        return self.workers * self.sp


def read_layout(start: Start) -> Layout | Refusal:
    """The layout, or why a replica cannot be laid out so on any cluster."""
    spec, settings = start.spec, start.settings
    wish = spec.deployment
    fewest = wish.nodes or (2 if wish.mode == DISTRIBUTED else 1)
    most = wish.nodes or (1 if wish.mode == STANDARD else NODES_MAX)
    if wish.mode == DISTRIBUTED and most < 2:
        return _nodes("spec.deployment.mode is Distributed and spec.deployment.nodes is 1", "set nodes to 2 or more")
    if wish.mode == STANDARD and fewest > 1:
        return _nodes(f"spec.deployment.mode is Standard and nodes is {fewest}", "leave spec.deployment.nodes out")
    if single := _one_node_only(start):
        if fewest > 1:
            return _nodes(f"{single} and cannot be spread over nodes", "set spec.deployment.mode to Standard")
        most = 1
    gpus = spec.resources.gpus
    if gpus and gpus % fewest:
        return _nodes(f"spec.resources.gpus {gpus} is not a multiple of {fewest} nodes", "make it one")
    tp, pp = settings.count("tensor-parallel-size"), settings.count("pipeline-parallel-size")
    return Layout(gpus, tp, pp, start.workers, fewest, most, settings.count(SPLIT) or 1)


def _one_node_only(start: Start) -> str:
    """Why this service has one node a replica; empty when it may have several."""
    spec, sp = start.spec, start.settings.count(SPLIT) or 1
    if spec.resources.gpus == 0:
        return "spec.resources.gpus is 0: the service runs on the CPU of one node"
    if start.workers > 1:
        return f"spec.engine.workers is {start.workers}: these engines share one pod"
    if sp > 1:
        return f"spec.engine.sequenceParallelSize is {sp}: its GPUs are in one node"
    if not start.is_vllm:
        return f"spec.image.family {spec.image.family} runs on one node"
    return "" if start.is_ours else "spec.command is not Windlass's own start command"


def parallelism(layout: Layout, facts: ModelFacts, one_node_max: int) -> Refusal | None:
    """Why the asked GPUs cannot share this model, if so; looked at after the cluster, whose limits are told first."""
    gpus, tp, pp = layout.gpus, layout.tp, layout.pp
    if gpus == 0:
        return _without_gpus(layout)
    if pp and pp > facts.num_hidden_layers:
        return _bad(f"the model's {facts.num_hidden_layers} layers cannot be cut into {pp} stages")
    if gpus and (words := _indivisible(gpus, layout)):
        return _bad(f"spec.resources.gpus {gpus} is not {words}")
    alone = layout.nodes_min == 1 and gpus is not None and gpus <= one_node_max
    ranks = tp or (gpus // layout.copies // (pp or 1) if gpus and alone else None)
    if not ranks or divides(facts, ranks):
        return None
    counts = [count for count in range(1, min(facts.num_attention_heads, COUNTS_SHOWN) + 1) if divides(facts, count)]
    heads = f"{facts.num_attention_heads} heads and {facts.num_key_value_heads} KV heads"
    return _bad(f"the model's {heads} cannot be split over {ranks} GPUs; {', '.join(map(str, counts))} are possible")


def _without_gpus(layout: Layout) -> Refusal | None:
    sizes = {
        "tensorParallelSize": layout.tp,
        "pipelineParallelSize": layout.pp,
        "sequenceParallelSize": layout.sp,
    }
    split = next((f"{name} is {size}" for name, size in sizes.items() if (size or 1) > 1), None)
    return _bad(f"spec.resources.gpus is 0 and {split}") if split else None


def _indivisible(gpus: int, layout: Layout) -> str:
    """What the asked GPUs should be and are not; empty when they agree with all that was asked."""
    tp, pp, workers, sp = layout.tp, layout.pp, layout.workers, layout.sp
    named = {"tensorParallelSize": tp, "pipelineParallelSize": pp, "workers": workers if workers > 1 else None}
    named["sequenceParallelSize"] = sp if sp > 1 else None
    given = {name: count for name, count in named.items() if count}
    product, words = 1, " × ".join(f"{name} {count}" for name, count in given.items())
    for count in given.values():
        product *= count
    whole = tp is not None and pp is not None
    if (gpus != product) if whole else gpus % product:
        return words if whole else f"a multiple of {words}"
    return ""


def _bad(message: str) -> Refusal:
    return Refusal("BadParallelism", message, "correct spec.resources.gpus or spec.engine.tensorParallelSize")


def _nodes(message: str, remedy: str) -> Refusal:
    return Refusal("BadParallelism", message, remedy)
