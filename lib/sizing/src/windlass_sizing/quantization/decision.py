"""What becomes of a quantization method on a card, a model and a number format: the one decision that all planners ask.

The operator asks before it takes a GPU, the server before it reads a weight, `windlass plan` for a person. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from windlass_sizing.model.dtypes import full_name
from windlass_sizing.model.facts import ModelFacts
from windlass_sizing.quantization.limits import limit
from windlass_sizing.quantization.methods import (
    ACCEPTED,
    AUTO,
    FLOATS16,
    METHODS,
    NAMES,
    NONE,
    SMOOTHQUANT,
    SMOOTHQUANT_FILE,
    Kind,
    reader_of,
)
from windlass_sizing.quantization.question import (
    FLAGS,
    About,
    Architecture,
    Card,
    Checkpoint,
    Problem,
    Question,
    Words,
    dotted,
    owned,
)

ADD_WEIGHTS = "put the model's own weight files beside it"
MAKE_FILE = "windlass quantize smoothquant MODEL --data FILE"


@dataclass(frozen=True, slots=True)
class Decision:
    """The method in effect, or why there is none."""

    method: str = NONE  # NONE: the weights are served as they are stored
    dtype: str | None = None  # that the method needs, where `auto` was asked
    why: str = ""  # of an `auto`
    beyond: str = ""  # the engine's limit that was set aside
    problem: Problem | None = None

    @property
    def quantization(self) -> str | None:
        """The method as the formula takes it: None for weights as they are stored."""
        return None if self.method == NONE else self.method


def of_facts(facts: ModelFacts) -> tuple[Architecture, Checkpoint]:
    """What a decision asks of a model, from its facts."""
    return (
        Architecture(facts.model_type, bool(facts.num_experts), _class_name(facts), facts.brings_code),
        Checkpoint(_quantized_by(facts), facts.has_smoothquant_file, facts.quantization != SMOOTHQUANT),
    )


def _quantized_by(facts: ModelFacts) -> str:
    """What config.json says; smoothquant's file alone is no checkpoint of the engine's, and our method reads it."""
    return "" if facts.quantization in (None, SMOOTHQUANT) else facts.quantization


def _class_name(facts: ModelFacts) -> str:
    """The class that config.json names; where it names none, the facts hold the model type in its place."""
    return "" if facts.architecture == facts.model_type else facts.architecture


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


def decide(  # noqa: PLR0913  the five things that a method depends on, and two settings of the asker
    method: str | None,
    dtype: str,
    card: Card,
    architecture: Architecture,
    checkpoint: Checkpoint,
    *,
    words: Words = FLAGS,
    beyond_limits: bool = False,
) -> Decision:
    """What becomes of the asked method; `dtype` is the one that will be served, `auto` the checkpoint's own.

    `beyond_limits` sets the engine's limits aside: what would have been refused is in `beyond`.
    """
    asked = (method or NONE).lower()
    question = Question(asked, full_name(dtype), card, architecture, checkpoint, words)
    problem, found = _unknown(question), limit(question)
    beyond = found.message if found and beyond_limits else ""
    if problem or (found and not beyond):
        return Decision(problem=problem or _rather(question, found))
    return replace(_served(question), beyond=beyond)


def _served(question: Question) -> Decision:
    """The method in effect, within the engine's limits."""
    if not question.checkpoint.has_plain_weights:
        return _from_file_alone(question)
    return _automatic(question) if question.asked == AUTO else _asked(question)


def _from_file_alone(question: Question) -> Decision:
    """smoothquant, asked for or not: nothing else reads the only weights that are there."""
    alone = f"{SMOOTHQUANT_FILE} is the model's only weight file"
    if question.asked not in (NONE, AUTO, SMOOTHQUANT):
        return Decision(problem=question.says(f"needs other weights: {alone}", f"take {SMOOTHQUANT}, or {ADD_WEIGHTS}"))
    found = _asked(replace(question, asked=SMOOTHQUANT))
    if found.problem:
        return Decision(problem=Problem(f"{alone}, and {found.problem.message}", ADD_WEIGHTS, found.problem.about))
    return replace(found, why=alone)


def _asked(question: Question) -> Decision:
    """The asked method itself, where every rule allows it."""
    problem = _broken_rule(question)
    return Decision(problem=problem) if problem else Decision(question.asked, _needed_dtype(question))


def _broken_rule(question: Question) -> Problem | None:
    """The first rule of the methods that this breaks."""
    if question.asked not in METHODS:
        return None
    return next((found for rule in RULES if (found := rule(question))), None)


def _rather(question: Question, found: Problem | None) -> Problem | None:
    """Of a dtype that cannot be served, what the asked method says of it, where it says something."""
    is_dtype = found is not None and found.about is About.DTYPE and not question.checkpoint.quantized_by
    return (_broken_rule(question) if is_dtype else None) or found


def _automatic(question: Question) -> Decision:
    """smoothquant where its file lies, else ifq; nothing where neither can be."""
    has = question.checkpoint
    if has.quantized_by:
        dtype = _needed_dtype(replace(question, asked=NONE))
        return Decision(NONE, dtype, f"auto: the model is {has.quantized_by} already")
    reason = ""
    for name, why in _AUTO if has.has_smoothquant_file else _AUTO[1:]:
        found = _asked(replace(question, asked=name))
        if not found.problem:
            return Decision(found.method, found.dtype, f"auto: {why}")
        reason = found.problem.message.removeprefix(f"{question.words.quantization} ")
    return Decision(NONE, None, f"auto: {reason}")


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
    if q.asked != "smoothquant" or q.checkpoint.has_smoothquant_file is not False:
        return None
    return q.says(f"needs {SMOOTHQUANT_FILE} in the model directory", f"make it with `{MAKE_FILE}`, or take ifq")


def _with_experts(q: Question) -> Problem | None:
    if q.row.experts or not q.architecture.has_experts:
        return None
    return q.says("does not quantize mixture-of-experts layers, and the model has them", f"take fp8, or {q.leave_out}")


def _too_old(q: Question) -> Problem | None:
    if q.card.reaches(q.row.min_capability):
        return None
    found = f"needs compute capability {dotted(q.row.min_capability)}, and {owned(q.card)}"
    return q.says(found, f"{_others(q, AUTO, or_else='')}{q.leave_out}")


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


def _others(q: Question, dtype: str, or_else: str = "or ") -> str:
    """`take A or B, or `; `or_else` where there is none."""
    names = _able(q, dtype)
    return f"take {' or '.join(names)}, or " if names else or_else
