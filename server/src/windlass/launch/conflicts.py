"""Combinations that cannot run, as rows: each is a question about the settings and the sentence that answers it.

Asked before anything starts; the first that applies ends the command with exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass_sizing import gpus, methods

from windlass.errors import UsageError
from windlass.launch import templates
from windlass.launch.flags import OUR_QUANTIZATIONS
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.values import Value

ONLINE_METHODS = ("fp8", *OUR_QUANTIZATIONS)
WEIGHT_ONLY_FORMATS = ("gptq", "gptq_marlin", "awq", "awq_marlin", "compressed-tensors", "bitsandbytes")


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that a rule may look at."""

    values: Mapping[str, Value]
    machine: Machine
    model: ModelFiles

    @property
    def method(self) -> str:
        """The quantization method in lower case, empty for none."""
        method = str(self.values.get("quantization") or "").lower()
        return "" if method == "none" else method

    @property
    def tp(self) -> int:
        """GPUs that share the model."""
        return int(str(self.values.get("tensor-parallel-size") or 1))


def check(question: Question) -> None:
    """Raise the first conflict."""
    for rule in RULES:
        if sentence := rule(question):
            raise UsageError(sentence)


def _quantized_twice(q: Question) -> str | None:
    has = q.model.quantization
    if has is None or has.lower() not in WEIGHT_ONLY_FORMATS or q.method not in ONLINE_METHODS:
        return None
    return f"--quantization {q.method} cannot be put on a model that is {has} already; leave --quantization out"


def _nf4_dtype(q: Question) -> str | None:
    dtype = q.values.get("dtype", "auto")
    if q.method != "ifq_nf4" or dtype in ("float16", "half"):
        return None
    return f"--quantization ifq_nf4 runs with float16 only, not {dtype}; set --dtype float16 or take ifq"


def _method_needs_newer_gpu(q: Question) -> str | None:
    if q.machine.engine != "cuda" or not q.method:
        return None
    for gpu in q.machine.gpus:
        known = gpus.find(gpu.name)
        if known and not methods.runs_on(q.method, known.capability):
            need = ".".join(str(part) for part in methods.METHODS[q.method].min_capability)
            has = ".".join(str(part) for part in known.capability)
            return (
                f"--quantization {q.method} needs compute capability {need}, and {gpu.name} has {has}; "
                "take another method, or leave --quantization out"
            )
    return None


def _ours_is_not_here(q: Question) -> str | None:
    if q.method not in OUR_QUANTIZATIONS:
        return None
    return f"--quantization {q.method} is not in this version; use fp8, a method of the engine, or none"


def _method_on_cpu(q: Question) -> str | None:
    if q.machine.engine != "cpu" or q.method != "fp8":
        return None
    return "--quantization fp8 needs a GPU, and this is the CPU image; leave --quantization out"


def _more_gpus_than_given(q: Question) -> str | None:
    given, workers = len(q.machine.gpus), int(str(q.values.get("worker-num") or 1))
    if q.machine.engine != "cuda" or q.machine.group or not given or q.tp * workers <= given:
        return None
    each = f" for each of {workers} workers (--worker-num)" if workers > 1 else ""
    asked = f"--tensor-parallel-size {q.tp}{each}"
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


def _architecture_gone(q: Question) -> str | None:
    if q.model.architecture not in templates.GONE:
        return None
    last, instead = templates.GONE[q.model.architecture]
    return f"the model is a {q.model.architecture}, which vLLM {last} was the last to have; serve {instead}"


def _tools_without_parser(q: Question) -> str | None:
    if not q.values.get("enable-auto-tool-choice") or q.values.get("tool-call-parser"):
        return None
    return "--enable-auto-tool-choice needs --tool-call-parser; add llama3_json, hermes, mistral or internlm"


RULES: tuple[Callable[[Question], str | None], ...] = (
    _template_of_models_gone,
    _architecture_gone,
    _quantized_twice,
    _nf4_dtype,
    _method_needs_newer_gpu,
    _ours_is_not_here,
    _method_on_cpu,
    _no_worker,
    _more_gpus_than_given,
    _heads_do_not_divide,
    _longer_than_model,
    _tools_without_parser,
)
