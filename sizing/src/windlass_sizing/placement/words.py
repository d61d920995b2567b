"""Sentences about a plan that `windlass plan`, the operator's status and the demo print alike. Pure."""

from __future__ import annotations

from windlass_sizing.model.drafter import HEADS
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Demand, Serving, adapters_gib, draft_gib
from windlass_sizing.placement.parallel import divides


def quick_formula(seed_gib: float) -> str:
    """The published formula as what it is: a check beside the one total, which is our figure."""
    return (
        f"the published quick formula, (weights + KV cache of one context) / utilization, gives {seed_gib:.2f} GiB; "
        "it is a check and counts no engine"
    )


def at_once(requests: int, max_model_len: int) -> str:
    """How many requests the KV cache holds."""
    noun = "request" if requests == 1 else "requests"
    return f"{requests} {noun} of {max_model_len} tokens fit in the KV cache at once (an estimate)"


def heads_over(facts: ModelFacts, tp: int) -> tuple[str, ...]:
    """Whether the heads divide over the GPUs of a tensor parallelism; nothing of a single GPU, over which all do."""
    if tp == 1:
        return ()
    heads = f"{facts.num_attention_heads} attention heads"
    if divides(facts, tp):
        return (f"{heads} divide evenly over {tp} GPUs",)
    odd = heads if facts.num_attention_heads % tp else f"{facts.num_key_value_heads} KV heads"
    return (f"{odd} do not divide evenly over {tp} GPUs",)


def figures(facts: ModelFacts, need: Demand, serving: Serving) -> tuple[str, ...]:
    """What one engine needs: weights, KV cache, the engine itself, and the parts of that which are served beside."""
    return (
        f"weights {need.weights_gib:.2f} GiB ({facts.params_text} parameters, {facts.params_how})",
        f"KV cache {need.kv_gib:.2f} GiB for one context of {serving.max_model_len} tokens",
        f"{need.overhead_gib:.2f} GiB a GPU for the engine itself",
        *beside(facts, serving),
        *unread(facts),
    )


def unread(facts: ModelFacts) -> tuple[str, ...]:
    """A warning of sizes that the model's class takes from config.json and that are not part of the figures."""
    if not facts.unread:
        return ()
    return (f"nothing here reads {facts.unread} of config.json, on which the model's size depends: check the figures",)


def beside(facts: ModelFacts, serving: Serving) -> tuple[str, ...]:
    """What adapters and a draft model take of that, or that an adapter is merged and takes nothing."""
    found = []
    if facts.adapters and facts.lora_slots:
        noun, places = _count(facts.adapters, "LoRA adapter"), _count(facts.lora_slots, "place")
        room = f"{adapters_gib(facts, serving):.3f} GiB a GPU"
        found.append(f"of that {room} for {noun}: {places} of rank {facts.lora_rank}")
    elif facts.adapters:
        found.append("the adapter is merged into the weights at the start")
    if facts.draft:
        whose, size = (
            HEADS.get(facts.draft.drafts_by or "", "the draft model's"),
            f"{facts.draft.params_text} parameters",
        )
        found.append(f"of that {draft_gib(facts, serving):.2f} GiB a GPU for {whose} weights ({size})")
    return tuple(found)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
