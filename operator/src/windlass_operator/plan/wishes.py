"""What the user asked for, completed with defaults and checked against the model, before the cluster is looked at.

Pure. `decide.py` takes the result; a contradiction becomes a refusal with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing import advice
from windlass_sizing.dtypes import NO_FLOAT16
from windlass_sizing.facts import ModelFacts
from windlass_sizing.formula import DEFAULT_MAX_MODEL_LEN, SAMPLED_SEQUENCES, STEP_TOKENS_MIN, Serving
from windlass_sizing.methods import METHODS

from windlass_operator.api.v1alpha1 import EngineSpec, LLMServiceSpec
from windlass_operator.plan.layout import Layout, read_layout
from windlass_operator.plan.model import Refusal
from windlass_operator.plan.overrides import engine_in_force, whole_prompts

OWN_ONLINE = ("fp8", "ifq", "ifq_nf4", "smoothquant")
DEFAULT_DTYPE = "float16"
FLOAT16_ONLY = ("ifq_nf4",)


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings in force; None is for the plan to choose."""

    layout: Layout
    quantization: str | None
    serving: Serving  # its tp and pp are filled in by the plan
    notes: tuple[str, ...]  # what was defaulted, for `because`
    family: str | None = None  # the engine of our image; None for an image of the user's own


def read_wishes(spec: LLMServiceSpec, facts: ModelFacts) -> Wishes | Refusal:
    """The wishes, or the first contradiction."""
    engine = engine_in_force(spec)
    refusal = _context(engine, facts) or _quantization(engine, facts)
    if refusal:
        return refusal
    layout = read_layout(spec, engine)
    if isinstance(layout, Refusal):
        return layout
    length, length_note = _length(engine, facts)
    dtype, dtype_note = _dtype(engine, facts, on_cpu=layout.gpus == 0)
    serving = Serving(
        max_model_len=length,
        dtype=dtype,
        quantization=engine.quantization,
        utilization=engine.gpu_memory_utilization_percent / 100,
        enforce_eager=engine.enforce_eager,
        kv_cache_dtype=engine.kv_cache_dtype,
        step_tokens=engine.max_num_batched_tokens or _whole_prompts(spec, length, on_cpu=layout.gpus == 0),
        sequences=engine.max_num_seqs or SAMPLED_SEQUENCES,
    )
    notes = tuple(note for note in (length_note, dtype_note) if note)
    family = None if spec.image.repository else spec.image.family
    return Wishes(layout, engine.quantization, serving, notes, family)


def _length(engine: EngineSpec, facts: ModelFacts) -> tuple[int, str]:
    if engine.max_model_len:
        return engine.max_model_len, ""
    if facts.max_model_len <= DEFAULT_MAX_MODEL_LEN:
        return facts.max_model_len, ""
    note = f"context cut from {facts.max_model_len} to {DEFAULT_MAX_MODEL_LEN}; set spec.engine.maxModelLen for more"
    return DEFAULT_MAX_MODEL_LEN, note


def _whole_prompts(spec: LLMServiceSpec, length: int, *, on_cpu: bool) -> int | None:
    """The tokens of a step that takes a whole prompt: on CPUs, and where the user forbids to split it."""
    return max(length, STEP_TOKENS_MIN) if on_cpu or whole_prompts(spec) else None


def _dtype(engine: EngineSpec, facts: ModelFacts, *, on_cpu: bool) -> tuple[str, str]:
    if engine.dtype:
        return engine.dtype, ""
    if facts.model_type in NO_FLOAT16:
        return "bfloat16", f"bfloat16, because {facts.model_type} is not stable in float16"
    if on_cpu and engine.quantization not in FLOAT16_ONLY:
        return "bfloat16", "bfloat16 on the CPU; set spec.engine.dtype for another"
    return DEFAULT_DTYPE, ""


def _context(engine: EngineSpec, facts: ModelFacts) -> Refusal | None:
    asked = engine.max_model_len
    if not asked or asked <= facts.max_model_len:
        return None
    return Refusal(
        "ContextTooLong",
        f"maxModelLen {asked} is above the model's own context of {facts.max_model_len} tokens",
        f"set spec.engine.maxModelLen to {facts.max_model_len} or less",
    )


def _quantization(engine: EngineSpec, facts: ModelFacts) -> Refusal | None:
    method = engine.quantization
    if method == "ifq_nf4" and engine.dtype not in (None, DEFAULT_DTYPE):
        return Refusal(
            "UnsupportedQuantization",
            f"ifq_nf4 runs in float16 only, and dtype is {engine.dtype}",
            "leave spec.engine.dtype out",
        )
    if method in METHODS and not advice.quantizes(method, facts):
        return Refusal(
            "UnsupportedQuantization",
            f"{method} does not pack mixtures of experts, and this model has {facts.num_experts} experts a layer",
            "set spec.engine.quantization to fp8 or none",
        )
    own = facts.quantization
    if own is None or method not in OWN_ONLINE or method == own:
        return None
    return Refusal(
        "UnsupportedQuantization",
        f"the checkpoint is already quantized with {own}, and {method} quantizes plain weights only",
        "leave spec.engine.quantization out, or use the model's unquantized checkpoint",
    )
