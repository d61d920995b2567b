"""Combinations that cannot run, as rows: each is a question about the settings and the sentence that answers it.

What a quantization method cannot do stands with the methods; `quantize` asks it.

Asked before anything starts; the first that applies ends the command with exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass_sizing import engine_flags
from windlass_sizing.settings import engine_words
from windlass_sizing.settings.values import Value

from windlass.errors import UsageError
from windlass.launch import loopback, templates
from windlass.launch.model import Machine, ModelFiles

TP = "--tensor-parallel-size"
READS_THE_FILES = (None, "auto", "hf", "safetensors", "windlass")
"""Values of --load-format that read the weight files as inspection finds them."""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a rule may look at."""

    values: Mapping[str, Value]
    machine: Machine
    model: ModelFiles
    words: tuple[str, ...] = ()
    """The engine's own words of the command line."""

    @property
    def tp(self) -> int:
        """GPUs that share the model."""
        return int(str(self.values.get("tensor-parallel-size") or 1))

    @property
    def sp(self) -> int:
        """Such groups of GPUs that share each long prompt."""
        return int(str(self.values.get("sequence-parallel-size") or 1))

    @property
    def workers(self) -> int:
        """Equal engines by our flag."""
        return int(str(self.values.get("worker-num") or 1))

    def of_engine(self, names: tuple[str, ...]) -> int | None:
        """The number that the engine's own flag says; None without one, and where other machines may have GPUs too."""
        beyond = loopback.BEYOND & {*engine_words.flags(self.words)}
        return None if beyond else engine_flags.count_of(self.words, names)


def check(question: Question) -> None:
    """Raise the first conflict."""
    for rule in RULES:
        if sentence := rule(question):
            raise UsageError(sentence)


def _more_gpus_than_given(q: Question) -> str | None:
    given, stages = len(q.machine.gpus), int(str(q.values.get("pipeline-parallel-size") or 1))
    engines, ranks = q.of_engine(engine_flags.ENGINES), q.of_engine(engine_flags.PROMPT_RANKS)
    shared = ranks or 1 if q.sp == 1 else 1  # beside --sequence-parallel-size the engine's flag is refused
    asked = q.tp * q.sp * stages * shared * (engines or q.workers)
    if q.machine.engine != "cuda" or q.machine.group or not given or asked <= given:
        return None
    factors = {
        TP: q.tp,
        "--pipeline-parallel-size": stages,
        "--sequence-parallel-size": q.sp,
        engine_flags.PROMPT_RANKS[0]: shared,
        engine_flags.ENGINES[0]: engines or 1,
    }
    product = " × ".join(f"{flag} {size}" for flag, size in factors.items() if size > 1 or flag == TP)
    each = f" for each of {q.workers} workers (--worker-num)" if q.workers > 1 and not engines else ""
    return f"{product}{each} is more than the {given} GPUs of this container; ask for more or lower it"


def _two_counts(q: Question) -> str | None:
    engines = q.of_engine(engine_flags.ENGINES)
    if engines is None or q.workers <= 1 or engines == q.workers:
        return None
    flag = engine_flags.ENGINES[0]
    return f"--worker-num {q.workers} and {flag} {engines} both say how many engines start; leave one of the two out"


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
    if not isinstance(wanted, int) or own is None or wanted <= own or q.model.takes_any_length:
        return None
    return f"--max-model-len {wanted} is longer than the model's own {own} tokens; set at most {own}"


def _weights_are_not_whole(q: Question) -> str | None:
    if not q.model.weights_problem or q.values.get("load-format") not in READS_THE_FILES:
        return None
    return f"{q.model.weights_path}: {q.model.weights_problem}"


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
    _weights_are_not_whole,
    _template_of_models_gone,
    _no_worker,
    _two_counts,
    _more_gpus_than_given,
    _heads_do_not_divide,
    _longer_than_model,
    _tools_without_parser,
)
