"""What becomes of a quantization method on a card, a model and a number format: the one decision that all planners ask.

The operator asks before it takes a GPU, the server before it reads a weight, `windlass plan` for a person. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from windlass_sizing.dtypes import full_name
from windlass_sizing.engine import ENGINE
from windlass_sizing.facts import ModelFacts
from windlass_sizing.methods import (
    ACCEPTED,
    AUTO,
    FLOATS16,
    METHODS,
    NAMES,
    NONE,
    READERS,
    SMOOTHQUANT_FILE,
    Capability,
    Kind,
    Method,
    reader_of,
)

BFLOAT16_CAPABILITY = (8, 0)  # the engine's check_if_supports_dtype
MAKE_FILE = "windlass quantize smoothquant MODEL --data FILE"


@dataclass(frozen=True, slots=True)
class Words:
    """How a person sets what the sentences speak of."""

    quantization: str
    dtype: str


FLAGS = Words("--quantization", "--dtype")
FIELDS = Words("spec.engine.quantization", "spec.engine.dtype")


@dataclass(frozen=True, slots=True)
class Card:
    """What computes: a GPU and its compute capability, None where that is not known; or a CPU."""

    name: str = ""
    capability: Capability | None = None
    is_cpu: bool = False

    def reaches(self, capability: Capability) -> bool:
        """Whether it has at least this compute capability; an unknown card and a CPU are given the benefit."""
        return self.capability is None or self.capability >= capability

    def formats(self, row: Method) -> tuple[str, ...]:
        """The number formats that the method computes in here."""
        return row.cpu_dtypes if self.is_cpu else row.dtypes


CPU = Card("CPU", is_cpu=True)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a method asks of the model's architecture."""

    model_type: str = ""
    has_experts: bool = False

    @property
    def overflows(self) -> bool:
        """Whether its activations leave the range of float16, so that the engine refuses it."""
        return self.model_type in ENGINE.no_float16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a method asks of the model's files."""

    quantized_by: str = ""  # the checkpoint's own `quant_method`; empty: plain weights
    has_smoothquant_file: bool = False


class About(StrEnum):
    """What a problem speaks of."""

    METHOD = "method"
    DTYPE = "dtype"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why it cannot be, and what to do."""

    message: str
    remedy: str
    about: About = About.METHOD

    def sentence(self) -> str:
        """Both as one sentence."""
        return f"{self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Decision:
    """The method in effect, or why there is none."""

    method: str = NONE  # NONE: the weights are served as they are stored
    dtype: str | None = None  # that the method needs, where `auto` was asked
    why: str = ""  # of an `auto`
    problem: Problem | None = None

    @property
    def quantization(self) -> str | None:
        """The method as the formula takes it: None for weights as they are stored."""
        return None if self.method == NONE else self.method


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a rule may look at."""

    asked: str
    dtype: str
    card: Card
    architecture: Architecture
    checkpoint: Checkpoint
    words: Words

    @property
    def row(self) -> Method:
        """The asked method; only for a name that has a row."""
        return METHODS[self.asked]

    @property
    def leave_out(self) -> str:
        """The remedy that always helps."""
        return f"leave {self.words.quantization} out"

    def says(self, message: str, remedy: str) -> Problem:
        """A problem of the asked method."""
        return Problem(f"{self.words.quantization} {self.asked} {message}", remedy)


def of_facts(facts: ModelFacts) -> tuple[Architecture, Checkpoint]:
    """What a decision asks of a model, from its facts."""
    return (
        Architecture(facts.model_type, bool(facts.num_experts)),
        Checkpoint(facts.quantization or "", facts.has_smoothquant_file),
    )


def default_dtype(
    method: str | None, architecture: Architecture, checkpoint: Checkpoint, *, usual: str = "float16"
) -> tuple[str, str]:
    """The number format where none is asked for, and why it is not the usual one."""
    reads = reader_of(checkpoint.quantized_by)
    can = reads.dtypes if reads else FLOATS16
    if architecture.overflows and usual == "float16":
        return "bfloat16", f"{architecture.model_type} overflows in float16"
    if usual not in can:
        return can[0], f"{checkpoint.quantized_by} checkpoints compute in {' or '.join(can)}"
    row = METHODS.get(method or NONE)
    if row and usual not in row.cpu_dtypes:
        return row.cpu_dtypes[0], f"{method} computes in {row.cpu_dtypes[0]}"
    return usual, ""


def decide(
    method: str | None,
    dtype: str,
    card: Card,
    architecture: Architecture,
    checkpoint: Checkpoint,
    *,
    words: Words = FLAGS,
) -> Decision:
    """What becomes of the asked method; `dtype` is the one that will be served, `auto` the checkpoint's own."""
    asked = (method or NONE).lower()
    question = Question(asked, full_name(dtype), card, architecture, checkpoint, words)
    if problem := _unknown(question) or _cannot_be_read(question):
        return Decision(problem=problem)
    if asked == AUTO:
        return _automatic(question)
    problem = _dtype_refused(question)
    if asked in METHODS:
        problem = next((found for rule in RULES if (found := rule(question))), problem)
    if problem:
        return Decision(problem=problem)
    return Decision(asked, _needed_dtype(question))


def _automatic(question: Question) -> Decision:
    """smoothquant where its file lies, else ifq; nothing where neither can be."""
    has = question.checkpoint
    plain = decide(NONE, question.dtype, question.card, question.architecture, has, words=question.words)
    if has.quantized_by or plain.problem:
        return Decision(NONE, plain.dtype, f"auto: the model is {has.quantized_by} already", plain.problem)
    reason = ""
    for name, why in _AUTO if has.has_smoothquant_file else _AUTO[1:]:
        found = decide(name, question.dtype, question.card, question.architecture, has, words=question.words)
        if not found.problem:
            return Decision(found.method, found.dtype, f"auto: {why}")
        reason = found.problem.message.removeprefix(f"{question.words.quantization} ")
    return Decision(NONE, plain.dtype, f"auto: {reason}")


_AUTO = (("smoothquant", f"{SMOOTHQUANT_FILE} is there"), ("ifq", f"there is no {SMOOTHQUANT_FILE}"))


def _unknown(q: Question) -> Problem | None:
    """A name without a row, or one that the pinned engine cannot run."""
    if q.asked in ACCEPTED:
        return None
    row = METHODS.get(q.asked)
    if row:
        return q.says(row.why, row.instead)
    near = get_close_matches(q.asked, ACCEPTED, 1)
    meant = f"did you mean {near[0]}? Else " if near else ""
    return Problem(
        f'{q.words.quantization} is "{q.asked}", which is no method',
        f"{meant}choose one of {', '.join(NAMES)}, or one of the engine's own: {', '.join(ACCEPTED[len(NAMES) :])}",
    )


def _cannot_be_read(q: Question) -> Problem | None:
    """A checkpoint that the engine has no reader for, or not on this card or in this number format."""
    by = q.checkpoint.quantized_by
    if not by:
        return None
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
            f"a checkpoint quantized by {by} needs compute capability {_dotted(needs.capability)}, and {_has(q.card)}",
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
            f"{q.words.dtype} bfloat16 needs compute capability {_dotted(BFLOAT16_CAPABILITY)}, and {_has(q.card)}",
            f"set {q.words.dtype} to {other}, or take a newer card",
            About.DTYPE,
        )
    return None


def _on_quantized(q: Question) -> Problem | None:
    by, only = q.checkpoint.quantized_by, q.row.model_types
    if not by or (by in q.row.formats and (not only or q.architecture.model_type in only)):
        return None
    return q.says(f"cannot be put on a model that is {by} already", q.leave_out)


def _on_plain(q: Question) -> Problem | None:
    if q.checkpoint.quantized_by or q.row.on_plain_weights:
        return None
    return q.says(
        f"reads {' and '.join(q.row.formats)} checkpoints, and this one is not quantized",
        f"take {' or '.join(_able(q, q.dtype)) or 'another checkpoint'}, or {q.leave_out}",
    )


def _without_file(q: Question) -> Problem | None:
    if q.asked != "smoothquant" or q.checkpoint.has_smoothquant_file:
        return None
    return q.says(f"needs {SMOOTHQUANT_FILE} in the model directory", f"make it with `{MAKE_FILE}`, or take ifq")


def _with_experts(q: Question) -> Problem | None:
    if q.row.experts or not q.architecture.has_experts:
        return None
    return q.says("does not quantize mixture-of-experts layers, and the model has them", f"take fp8, or {q.leave_out}")


def _too_old(q: Question) -> Problem | None:
    if q.card.reaches(q.row.min_capability):
        return None
    found = f"needs compute capability {_dotted(q.row.min_capability)}, and {_has(q.card)}"
    others = _able(q, AUTO)
    if not others:
        return q.says(
            f"{found}, which CUDA 13 has no code for", "serve the model on a newer card, or by the DeepSpeed image"
        )
    return q.says(found, f"take {' or '.join(others)}, or {q.leave_out}")


def _overflows(q: Question) -> Problem | None:
    if not q.architecture.overflows or "bfloat16" in q.card.formats(q.row):
        return None
    return q.says(
        f"runs with float16 only, in which {q.architecture.model_type} overflows", _others(q, "bfloat16") + q.leave_out
    )


def _wrong_dtype(q: Question) -> Problem | None:
    dtypes = q.card.formats(q.row)
    if q.dtype in (AUTO, *dtypes):
        return None
    only = " only" if len(dtypes) == 1 else ""
    return q.says(
        f"runs with {' or '.join(dtypes)}{only}, not {q.dtype}",
        f"set {q.words.dtype} {dtypes[0]}, {_others(q, q.dtype)}{q.leave_out}",
    )


RULES: tuple[Callable[[Question], Problem | None], ...] = (
    _on_quantized, _on_plain, _without_file, _with_experts, _too_old, _overflows, _wrong_dtype,
)  # fmt: skip
"""Asked in this order of a method that has a row; the first answer is the verdict."""


def _needed_dtype(q: Question) -> str | None:
    """The number format in place of `auto`, where method or checkpoint compute in one of the two halves only."""
    row, reads = METHODS.get(q.asked), reader_of(q.checkpoint.quantized_by)
    can = q.card.formats(row) if row and row.kind is Kind.OURS else reads.dtypes if reads else FLOATS16
    return can[0] if q.dtype == AUTO and not set(FLOATS16) <= set(can) else None


def _able(q: Question, dtype: str) -> list[str]:
    """Our methods that need no file and that the card can run in this number format."""
    rows = (row for row in METHODS.values() if row.kind is Kind.OURS and row.name != "smoothquant")
    return [
        row.name
        for row in rows
        if q.card.reaches(row.min_capability) and (dtype == AUTO or dtype in q.card.formats(row))
    ]


def _others(q: Question, dtype: str) -> str:
    """`take A or B, or `; `or ` where there is none."""
    names = _able(q, dtype)
    return f"take {' or '.join(names)}, or " if names else "or "


def _has(card: Card) -> str:
    return f"{card.name} has {_dotted(card.capability or ())}"


def _dotted(capability: tuple[int, ...]) -> str:
    return ".".join(map(str, capability))
