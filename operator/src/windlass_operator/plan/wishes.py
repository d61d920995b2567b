"""What the user asked for, completed with defaults and checked against the model, before the cluster is looked at.

Pure. `decide.py` takes the result; a contradiction becomes a refusal with a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.dtypes import NO_FLOAT16
from windlass_sizing.facts import ModelFacts
from windlass_sizing.formula import DEFAULT_MAX_MODEL_LEN, Serving
from windlass_sizing.parallel import divides

from windlass_operator.api.v1alpha1 import EngineSpec, LLMServiceSpec
from windlass_operator.plan.model import Refusal
from windlass_operator.plan.overrides import engine_in_force

OWN_ONLINE = ("fp8", "ifq", "ifq_nf4", "smoothquant")
DEFAULT_DTYPE = "float16"
COUNTS_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Wishes:
    """The settings in force; None is for the plan to choose."""

    gpus: int | None
    tp: int | None
    quantization: str | None
    serving: Serving  # its tp is filled in by the plan
    notes: tuple[str, ...]  # what was defaulted, for `because`


def read_wishes(spec: LLMServiceSpec, facts: ModelFacts) -> Wishes | Refusal:
    """The wishes, or the first contradiction."""
    engine = engine_in_force(spec)
    gpus, tp = spec.resources.gpus, engine.tensor_parallel_size
    refusal = _context(engine, facts) or _quantization(engine, facts)
    if refusal:
        return refusal
    length, length_note = _length(engine, facts)
    dtype, dtype_note = _dtype(engine, facts)
    serving = Serving(
        max_model_len=length,
        dtype=dtype,
        quantization=engine.quantization,
        utilization=engine.gpu_memory_utilization_percent / 100,
        enforce_eager=engine.enforce_eager,
    )
    notes = tuple(note for note in (length_note, dtype_note) if note)
    return Wishes(tp if gpus is None else gpus, tp, engine.quantization, serving, notes)


def _length(engine: EngineSpec, facts: ModelFacts) -> tuple[int, str]:
    if engine.max_model_len:
        return engine.max_model_len, ""
    if facts.max_model_len <= DEFAULT_MAX_MODEL_LEN:
        return facts.max_model_len, ""
    note = f"context cut from {facts.max_model_len} to {DEFAULT_MAX_MODEL_LEN}; set spec.engine.maxModelLen for more"
    return DEFAULT_MAX_MODEL_LEN, note


def _dtype(engine: EngineSpec, facts: ModelFacts) -> tuple[str, str]:
    if engine.dtype:
        return engine.dtype, ""
    if facts.model_type in NO_FLOAT16:
        return "bfloat16", f"bfloat16, because {facts.model_type} is not stable in float16"
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
    own = facts.quantization
    if own is None or method not in OWN_ONLINE or method == own:
        return None
    return Refusal(
        "UnsupportedQuantization",
        f"the checkpoint is already quantized with {own}, and {method} quantizes plain weights only",
        "leave spec.engine.quantization out, or use the model's unquantized checkpoint",
    )


def parallelism(wishes: Wishes, facts: ModelFacts) -> Refusal | None:
    """Why the asked GPUs cannot share this model, if so; looked at after the cluster, whose limits are told first."""
    gpus, tp = wishes.gpus, wishes.tp
    if gpus == 0:
        return _bad(f"spec.resources.gpus is 0 and tensorParallelSize is {tp}") if tp and tp > 1 else None
    if tp and gpus and gpus % tp:
        return _bad(f"spec.resources.gpus {gpus} is not a multiple of tensorParallelSize {tp}")
    ranks = tp or gpus
    if not ranks or divides(facts, ranks):
        return None
    counts = [count for count in range(1, min(facts.num_attention_heads, COUNTS_SHOWN) + 1) if divides(facts, count)]
    heads = f"{facts.num_attention_heads} heads and {facts.num_key_value_heads} KV heads"
    return _bad(f"the model's {heads} cannot be split over {ranks} GPUs; {', '.join(map(str, counts))} are possible")


def _bad(message: str) -> Refusal:
    return Refusal("BadParallelism", message, "correct spec.resources.gpus or spec.engine.tensorParallelSize")
