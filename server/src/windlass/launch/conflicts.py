"""Combinations that cannot run, as rows: each is a question about the settings and the sentence that answers it.

What a quantization method cannot do stands with the methods; `quantize` asks it.

Asked before anything starts; the first that applies ends the command with exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.errors import UsageError
from windlass.launch import templates
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.values import Value


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a rule may look at."""

    values: Mapping[str, Value]
    machine: Machine
    model: ModelFiles

    @property
    def tp(self) -> int:
        """GPUs that share the model."""
        return int(str(self.values.get("tensor-parallel-size") or 1))

    @property
    def sp(self) -> int:
        """Such groups of GPUs that share each long prompt."""
        return int(str(self.values.get("sequence-parallel-size") or 1))


def check(question: Question) -> None:
    """Raise the first conflict."""
    for rule in RULES:
        if sentence := rule(question):
            raise UsageError(sentence)


def _more_gpus_than_given(q: Question) -> str | None:
    given, workers = len(q.machine.gpus), int(str(q.values.get("worker-num") or 1))
    stages = int(str(q.values.get("pipeline-parallel-size") or 1))
    if q.machine.engine != "cuda" or q.machine.group or not given or q.tp * q.sp * stages * workers <= given:
        return None
    each = f" for each of {workers} workers (--worker-num)" if workers > 1 else ""
    split = f" × --sequence-parallel-size {q.sp}" if q.sp > 1 else ""
    staged = f" × --pipeline-parallel-size {stages}" if stages > 1 else ""
    asked = f"--tensor-parallel-size {q.tp}{staged}{split}{each}"
    return f"{asked} is more than the {given} GPUs of this container; ask for more or lower it"


def _no_worker(q: Question) -> str | None:
    if q.values.get("worker-num", 1) != 0:
        return None
    return "--worker-num 0 leaves no engine; set at least 1"


def _heads_do_not_divide(q: Question) -> str | None:
    heads = q.model.attention_heads
    if not heads or heads % q.tp == 0:
        return None
    fitting = max(size for size in range(1, q.tp) if heads % size == 0)
    return f"--tensor-parallel-size {q.tp} does not divide the model's {heads} attention heads; set it to {fitting}"


def _longer_than_model(q: Question) -> str | None:
    wanted, own = q.values.get("max-model-len"), q.model.max_model_len
    if not isinstance(wanted, int) or own is None or wanted <= own:
        return None
    return f"--max-model-len {wanted} is longer than the model's own {own} tokens; set at most {own}"


def _template_of_models_gone(q: Question) -> str | None:
    row = templates.find(str(q.values.get("conv-template") or ""))
    if row is None or not row.instead:
        return None
    return f"the engine no longer has the models of conv-template {row.name} ({row.models}); serve {row.instead}"


def _tools_without_parser(q: Question) -> str | None:
    if not q.values.get("enable-auto-tool-choice") or q.values.get("tool-call-parser"):
        return None
    return "--enable-auto-tool-choice needs --tool-call-parser; add llama3_json, hermes, mistral or another"


RULES: tuple[Callable[[Question], str | None], ...] = (
    _template_of_models_gone,
    _no_worker,
    _more_gpus_than_given,
    _heads_do_not_divide,
    _longer_than_model,
    _tools_without_parser,
)
