"""Sentences about a plan that `windlass plan`, the operator's status and the demo print alike. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from windlass_sizing.model.drafter import HEADS
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import Demand, Serving, adapters_gib, draft_gib
from windlass_sizing.placement.parallel import divides

WARNING = "warning: "
AT_ONCE = "fit in the KV cache at once"
FEW_REQUESTS = 4
"""Of the whole context at once; fewer are no service for several users."""


def warnings(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines that warn, which a summary repeats."""
    return tuple(line for line in lines if line.startswith(WARNING))


def rule_of_thumb(seed_gib: float) -> str:
    """The documents' formula as a rule that a placement must meet beside our figure."""
    return f"the rule of thumb, (weights + KV cache of one context) / utilization, asks for {seed_gib:.2f} GiB in all"


def are_few(requests: int, serving: Serving) -> bool:
    """Whether the KV cache holds fewer requests than a service needs, or than were asked for."""
    return requests < min(FEW_REQUESTS, serving.sequences)


def at_once(requests: int, serving: Serving) -> str:
    """How many requests the KV cache holds; a warning where they are few."""
    noun = "request" if requests == 1 else "requests"
    count = f"{requests} {noun} of {serving.max_model_len} tokens {AT_ONCE} (an estimate)"
    if not are_few(requests, serving):
        return count
    return f"{WARNING}only {count}; others wait: a shorter context or more GPUs make room"


def one_suffices(serving: Serving, remedy: str) -> str:
    """A warning of GPUs that bring no room."""
    length, gpus = serving.max_model_len, serving.tp * serving.pp
    return (
        f"{WARNING}1 GPU suffices for an engine that has {gpus}: it holds {serving.sequences} requests of {length} "
        f"tokens at once; {remedy}"
    )


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
    depends = f"nothing here reads {facts.unread} of config.json, on which the model's size depends"
    return (f"{WARNING}{depends}: check the figures",)


def beside(facts: ModelFacts, serving: Serving) -> tuple[str, ...]:
    """What adapters and a draft model take of that, or that an adapter is merged and takes nothing."""
    found = []
    if facts.adapters and facts.lora_slots:
        noun, places = _count(facts.adapters, "LoRA adapter"), _count(facts.lora_slots, "place")
        room = f"{adapters_gib(facts, serving):.3f} GiB a GPU"
        found.append(f"of that {room} for {noun}: {places} of rank {facts.lora_rank}")
        found += ignored(facts.lora_ignored)
    elif facts.adapters:
        found.append("the adapter is merged into the weights at the start")
    if facts.draft:
        whose, size = (
            HEADS.get(facts.draft.drafts_by or "", "the draft model's"),
            f"{facts.draft.params_text} parameters",
        )
        found.append(f"of that {draft_gib(facts, serving):.2f} GiB a GPU for {whose} weights ({size})")
    return tuple(found)


def ignored(tensors: str | None) -> tuple[str, ...]:
    """A warning of what an adapter changes for nothing; the plan and the server say it alike."""
    ways = "they change nothing, unless the class takes --enable-tower-connector-lora"
    return (f"{WARNING}the engine ignores {tensors}: {ways}",) if tensors else ()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
