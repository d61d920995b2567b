"""What the pinned engine cannot run, whatever our methods: cards, architectures, quantized checkpoints, number formats.

Its data is the engine's own (`engine.json`). One who knows better, with another engine in an image of their own, may
set these limits aside.
"""

from __future__ import annotations

from difflib import get_close_matches

from windlass_sizing.model.quantized import UNNAMED
from windlass_sizing.quantization.engine import DEEPSPEED, ENGINE
from windlass_sizing.quantization.methods import AUTO, METHODS, READERS, reader_of
from windlass_sizing.quantization.question import About, Problem, Question, dotted, owned

BFLOAT16_CAPABILITY = (8, 0)  # the engine's check_if_supports_dtype
# Transformers has a class, which the engine would take; its cross-attention layers are what the engine gave up.
CROSS_ATTENTION = ("MllamaForConditionalGeneration",)
TEXT_INSTEAD = "Qwen2.5-7B-Instruct, or another model of docs/reference/architectures.md"
VISION_INSTEAD = "Qwen2.5-VL-7B-Instruct or Llama-4-Scout-17B-16E-Instruct"


def limit(q: Question) -> Problem | None:
    """The first limit of the engine that this runs into."""
    return _without_code(q) or _not_served(q) or _cannot_be_read(q) or _dtype_refused(q)


def instead_of(architecture: str) -> str:
    """A model of the same kind that the engine serves."""
    return VISION_INSTEAD if architecture.endswith("ForConditionalGeneration") else TEXT_INSTEAD


def _without_code(q: Question) -> Problem | None:
    """A card that the engine's wheels hold no code for."""
    capability = q.card.capability
    if q.card.is_cpu or capability is None or ENGINE.has_code(capability):
        return None
    if capability < ENGINE.least():
        begins = f"whose code begins at {dotted(ENGINE.least())}"
    else:
        begins = "which has no code for that generation"
    other = "by the DeepSpeed image, or " if ENGINE.has_code(capability, DEEPSPEED) else ""
    return Problem(
        f"{owned(q.card)}, and the engine is vLLM {ENGINE.release}, {begins}",
        f"serve the model {other}on {'a newer' if capability < ENGINE.least() else 'another'} card",
        About.CARD,
    )


def _not_served(q: Question) -> Problem | None:
    """An architecture that the engine gave up or never had; a class that the checkpoint brings is not judged."""
    name = q.architecture.name
    if not name or (ENGINE.serves(name) and name not in CROSS_ATTENTION):
        return None
    last = ENGINE.gone.get(name)
    if last is None and q.architecture.brings_code is not False:
        return None
    near = get_close_matches(name, sorted(ENGINE.architectures), 1)
    nearest = f"; the nearest that it has is {near[0]}" if near else ""
    why = f"vLLM {last} was the last to have" if last else f"vLLM {ENGINE.release} does not have{nearest}"
    return Problem(f"the model is a {name}, which {why}", f"serve {instead_of(name)}", About.ARCHITECTURE)


def _cannot_be_read(q: Question) -> Problem | None:
    """A checkpoint that the engine has no reader for, or not on this card or in this number format."""
    by = q.checkpoint.quantized_by
    if not by:
        return None
    if by == UNNAMED:
        return Problem(
            "the checkpoint's quantization_config names no quant_method, as MLX leaves it out, "
            f"and vLLM {ENGINE.release} does not read that format",
            "serve the unquantized checkpoint, or one in a format with a quant_method",
            About.CHECKPOINT,
        )
    needs = reader_of(by)
    if needs is None:
        known = METHODS.get(by)
        why = f"which {known.why}" if known and known.why else f"which vLLM {ENGINE.release} does not read"
        near = get_close_matches(by, READERS, 1)
        nearest = f"; the nearest that it reads is {near[0]}" if near else ""
        return Problem(
            f"the checkpoint is quantized by {by}, {why}{nearest}", "serve the unquantized checkpoint", About.CHECKPOINT
        )
    if not q.card.reaches(needs.capability):
        return Problem(
            f"a checkpoint quantized by {by} needs compute capability {dotted(needs.capability)}, and {owned(q.card)}",
            "take a newer card, or the unquantized checkpoint",
            About.CHECKPOINT,
        )
    if q.dtype != AUTO and q.dtype not in needs.dtypes:
        return Problem(
            f"a checkpoint quantized by {by} computes in {' or '.join(needs.dtypes)}, not {q.dtype}",
            f"set {q.words.dtype} to {needs.dtypes[0]}",
            About.DTYPE,
        )
    return None


def _dtype_refused(q: Question) -> Problem | None:
    """A number format that the engine refuses for this model or on this card, whatever the method."""
    if q.dtype == "float16" and q.architecture.overflows:
        return Problem(
            f"{q.words.dtype} float16 makes {q.architecture.model_type} overflow",
            f"set {q.words.dtype} to bfloat16 or float32, or leave it out",
            About.DTYPE,
        )
    if q.dtype == "bfloat16" and not q.card.reaches(BFLOAT16_CAPABILITY):
        other = "float32" if q.architecture.overflows else "float16"
        return Problem(
            f"{q.words.dtype} bfloat16 needs compute capability {dotted(BFLOAT16_CAPABILITY)}, and {owned(q.card)}",
            f"set {q.words.dtype} to {other}, or take a newer card",
            About.DTYPE,
        )
    return None
