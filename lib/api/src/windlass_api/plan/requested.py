"""What the user asked for, completed with defaults and checked against the model, before the cluster is looked at.

Pure. `decide.py` takes the result; a contradiction becomes a refusal with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass_sizing.model import context_length
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.placement.formula import DEFAULT_MAX_MODEL_LEN, SAMPLED_SEQUENCES, STEP_TOKENS_MIN, Serving
from windlass_sizing.quantization.question import CPU, Card

from windlass_api.plan.layout import Layout, read_layout
from windlass_api.plan.model import Refusal
from windlass_api.plan.offload import too_small_shm
from windlass_api.plan.prefix_offload import unsized_prefix
from windlass_api.plan.quantize import VLLM_WITHIN_LIMITS, Engine, number_format, settle
from windlass_api.plan.start import UTILIZATION, Start


@dataclass(frozen=True, slots=True)
class Requested:
    """The settings in force; None is for the plan to choose."""

    layout: Layout
    quantization: str | None  # as asked
    serving: Serving  # its tp and pp are filled in by the plan
    notes: tuple[str, ...]  # what was defaulted, for `because`
    family: str | None = None  # the engine of our image; None for an image of the user's own
    engine: Engine = VLLM_WITHIN_LIMITS  # that the flags are for, in whatever image


def read_requested(start: Start, facts: ModelFacts) -> Requested | Refusal:
    """What is requested, or the first contradiction."""
    settings = start.settings
    if refusal := _context(start, facts):
        return refusal
    layout = read_layout(start)
    if isinstance(layout, Refusal):
        return layout
    if refusal := unsized_prefix(start, layout.gpus) or too_small_shm(start, layout.workers):
        return refusal
    quantization = settings.text("quantization")
    length, length_note = _length(start.max_model_len, facts)
    dtype, dtype_note = number_format(settings.text("dtype"), quantization, facts, on_cpu=layout.gpus == 0)
    serving = Serving(
        max_model_len=length,
        dtype=dtype,
        quantization=quantization,
        utilization=(settings.percent(UTILIZATION) or 0) / 100,
        enforce_eager=settings.value("enforce-eager") is True,
        kv_cache_dtype=start.kv_cache_dtype,
        step_tokens=settings.count("max-num-batched-tokens") or _whole_prompts(start, length, on_cpu=layout.gpus == 0),
        sequences=settings.count("max-num-seqs") or SAMPLED_SEQUENCES,
    )
    notes = tuple(note for note in (length_note, dtype_note) if note)
    family = None if start.spec.image.repository else start.spec.image.family
    program = Engine(start.spec.image.family, settings.value("ignore-engine-limits") is True)
    return _settled(Requested(layout, quantization, serving, notes, family, program), facts)


def _settled(requested: Requested, facts: ModelFacts) -> Requested | Refusal:
    """On the CPU with the method in effect; on GPUs as asked, since that is for the card, or what no card can."""
    on_cpu = requested.layout.gpus == 0
    found = settle(requested.serving, facts, CPU if on_cpu else Card(), requested.engine)
    if isinstance(found, Refusal):
        return found
    if not on_cpu:
        return requested
    serving, why = found
    return replace(requested, serving=serving, notes=(*requested.notes, *((why,) if why else ())))


def _length(length: int | None, facts: ModelFacts) -> tuple[int, str]:
    if length:
        return length, ""
    if facts.max_model_len <= DEFAULT_MAX_MODEL_LEN:
        return facts.max_model_len, ""
    note = f"context cut from {facts.max_model_len} to {DEFAULT_MAX_MODEL_LEN}; set spec.engine.maxModelLen for more"
    return DEFAULT_MAX_MODEL_LEN, note


def _whole_prompts(start: Start, length: int, *, on_cpu: bool) -> int | None:
    """The tokens of a step that takes a whole prompt: on CPUs, and where the user forbids to split it."""
    return max(length, STEP_TOKENS_MIN) if on_cpu or start.whole_prompts else None


def _stretched(start: Start) -> bool:
    """Whether a context above the model's own is wanted, as the server has it: the engine then judges it."""
    may_stretch = any((one.name, one.value) == (context_length.LONGER_IS_WANTED, "1") for one in start.spec.env)
    return start.is_vllm and (may_stretch or start.settings.names(context_length.OVERRIDES))


def _context(start: Start, facts: ModelFacts) -> Refusal | None:
    length = start.max_model_len
    if not length or facts.takes(length) or _stretched(start):
        return None
    return Refusal(
        "ContextTooLong",
        f"maxModelLen {length} is above the model's own context of {facts.max_model_len} tokens",
        f"set spec.engine.maxModelLen to {facts.max_model_len} or less",
    )
