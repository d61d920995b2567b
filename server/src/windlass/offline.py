"""The offline API: a model in this process, with the defaults that `windlass run` would take on this machine.

`from windlass import LLM, SamplingParams` gives these two. The engine is imported when the first of them is called, so
that importing `windlass` costs nothing. Variables of `run` (DTYPE, TP, …) do not count here: the caller has the words.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from windlass_sizing.settings.flags import FLAGS, ROW, Effect, Kind

from windlass.engine.lookahead import settings
from windlass.engine.sampling.ngrams import PARAMETER as NO_REPEAT
from windlass.engine.sampling.ngrams import PROCESSOR, size_of
from windlass.errors import UsageError
from windlass.launch.lookahead import COSTS_CONTEXT
from windlass.launch.quantize import engine_value
from windlass.launch.resolve import ENGINES_OWN

if TYPE_CHECKING:
    from vllm import SamplingParams as EngineSamplingParams

    from windlass.launch.model import LaunchPlan

SERVERS_OWN = (
    *("lora-modules", "port", "worker-num", "shutdown-timeout", "tool-call-parser", "enable-auto-tool-choice"),
    "enable-offline-docs",
)
"""Rows of the engine's server that its offline class does not take."""
UNPARSED = ("--enable-auto-tool-choice=false", "--reasoning-parser=none")
"""Outputs are texts here, so no parser is looked for; an option of the caller comes later and wins."""
OURS_TOO = ("conv-template",)
"""Rows of our own that mean the same without a server."""
ENGINE_DECIDES = -1
PROCESSORS, SPECULATION = "logits_processors", "--speculative-config"
ON_HOST = "cpu_draft_worker"
HOST_DRAFTS = (ON_HOST, "cpu_draft_bits", "cpu_draft_threads", "speculative_model", "num_speculative_tokens")
"""Options of a draft model on the host's cores."""
CLASSES = ("--worker-cls", "--scheduler-cls")
"""The engine's words for the classes that draft with it."""
TOLD = ("hf-overrides", "speculative-config", "runner", "convert")
"""The engine's own words that decisions of ours depend on: how long the context is, whether sampling rules work."""


class LLM:
    """A loaded model. Everything that the engine's own class has and this one does not name is there too."""

    def __init__(self, model: str | os.PathLike[str] = "/data/model", **options: object) -> None:
        """Load a model directory; options are named as the engine names them, and go on to it."""
        from windlass.engine.startup import model_infos
        from windlass.license.hold import Lease

        model_infos.place(os.environ)
        engine = _engine()
        words = engine_options(os.fspath(model), options, os.environ)
        self._keeps_rules = PROCESSOR in words.get(PROCESSORS, ())
        self._license = Lease.take(os.environ)
        self._engine = engine.LLM(**words)

    def generate(
        self, prompts: object, sampling_params: EngineSamplingParams | None = None, **more: object
    ) -> list[Any]:
        """Continue texts or token lists; one output a prompt."""
        self._refuse_unlicensed()
        self._refuse_unkept(sampling_params)
        outputs: list[Any] = self._engine.generate(prompts, sampling_params, **more)
        return outputs

    def chat(self, messages: object, sampling_params: EngineSamplingParams | None = None, **more: object) -> list[Any]:
        """Answer a conversation, or a list of them, by the model's chat template."""
        self._refuse_unlicensed()
        self._refuse_unkept(sampling_params)
        outputs: list[Any] = self._engine.chat(messages, sampling_params, **more)
        return outputs

    def _refuse_unlicensed(self) -> None:
        if self._license is not None:
            self._license.check()

    def _refuse_unkept(self, params: object) -> None:
        each = params if isinstance(params, list | tuple) else (params,)
        if not self._keeps_rules and any((getattr(one, "extra_args", None) or {}).get(NO_REPEAT) for one in each):
            raise UsageError(f"{NO_REPEAT} is not there: this model does not generate; leave it out")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  the engine's own, whatever it is
        if name == "_engine":  # not there before __init__ is through
            raise AttributeError(name)
        return getattr(self._engine, name)


def SamplingParams(*, no_repeat_ngram_size: int | None = None, **sampling: object) -> EngineSamplingParams:  # noqa: N802
    """The engine's sampling parameters, and `no_repeat_ngram_size`: no run of so many tokens is made twice."""
    params: EngineSamplingParams = _engine().SamplingParams(**with_no_repeat(no_repeat_ngram_size, sampling))
    return params


def with_no_repeat(size: int | None, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's words for these parameters: what it has no field for goes into `extra_args`."""
    if size is None:
        return dict(sampling)
    extra = {**(sampling.get("extra_args") or {}), NO_REPEAT: size}
    try:
        size_of(SimpleNamespace(extra_args=extra))
    except ValueError as error:
        raise UsageError(str(error)) from None
    return {**sampling, "extra_args": extra}


def engine_options(model: str, options: Mapping[str, Any], environment: MutableMapping[str, str]) -> dict[str, Any]:
    """What the engine's class is called with: our rows as `run` resolves them, the caller's other words untouched.

    What the engine's processes must know of drafts on the host is put into the environment.
    """
    from windlass.launch import exec as launch
    from windlass.launch import planned

    _refuse_servers_own(options)
    plan, _ = launch.plan((model, *UNPARSED, *words_of(options)), without_flags(environment))
    if plan.model_path != model:
        raise UsageError(
            f"{model} is a LoRA adapter, and LLM loads complete models; load {plan.model_path} with enable_lora=True "
            "and give generate a LoRARequest, or start `windlass run`"
        )
    for sentence in plan.warnings:
        print(f"windlass: {sentence}", file=sys.stderr)
    planned.write(plan.files)
    others = {name: value for name, value in options.items() if _row(name) not in ROW and name not in _drafts(options)}
    if PROCESSOR in plan.engine_args:
        others[PROCESSORS] = [*(others.get(PROCESSORS) or ()), PROCESSOR]
    if SPECULATION in plan.engine_args:  # method and number of tokens are filled in, as for a server
        others["speculative_config"] = json.loads(plan.engine_args[plan.engine_args.index(SPECULATION) + 1])
    if settings.VARIABLE in plan.variables:  # drafts by our integration, on the host or the card
        others |= _classes(plan.engine_args)
        environment[settings.VARIABLE] = _apart(plan.variables[settings.VARIABLE])
        if COSTS_CONTEXT in plan.variables:
            environment[COSTS_CONTEXT] = plan.variables[COSTS_CONTEXT]
    return {**others, **keywords_of(plan)}


def _drafts(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The options of drafts on the host, where they are asked for."""
    return HOST_DRAFTS if options.get(ON_HOST) else ()


def _classes(words: Sequence[str]) -> dict[str, str]:
    """The classes that the plan names, as keywords."""
    found = ((flag, words.index(flag) + 1) for flag in CLASSES if flag in words)
    return {flag.removeprefix("--").replace("-", "_"): words[at] for flag, at in found}


def _apart(text: str) -> str:
    """The settings with a directory of counts of this process's own: a server may run beside it."""
    known = settings.read({settings.VARIABLE: text}) or settings.LookaheadSettings()
    return replace(known, counts_dir=f"{known.counts_dir}-{os.getpid()}").to_json()


def _refuse_servers_own(options: Mapping[str, Any]) -> None:
    for name in options:
        if name in _drafts(options):
            continue
        flag = ROW.get(_row(name))
        if flag and (flag.name in SERVERS_OWN or (flag.effect is Effect.OURS and flag.name not in OURS_TOO)):
            raise UsageError(f"{name} is for a server, and LLM is none; leave it out, or start `windlass run`")


def words_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The options that are rows of the start command, as its words; None means the default."""
    said = [(_row(name), value) for name, value in options.items() if value is not None]
    words = [f"--{name}={_text(value)}" for name, value in said if name in ROW]
    named = (*TOLD, *map(_row, _drafts(options)))
    return (*words, *(f"--{name}={_text(value)}" for name, value in said if name in named and name not in ROW))


def without_flags(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of `run`."""
    ours = {variable for flag in FLAGS for variable in flag.variables}
    return {name: value for name, value in environment.items() if name not in ours}


def keywords_of(plan: LaunchPlan) -> dict[str, Any]:
    """A plan as keywords of the engine's class."""
    found: dict[str, Any] = {}
    for setting in plan.settings:
        flag = ROW[setting.name]
        unsaid = setting.name == "served-model-name" and setting.source == "default"
        left_out = setting.name in SERVERS_OWN or (setting.name, setting.value) in ENGINES_OWN
        if flag.effect is not Effect.ENGINE or left_out or unsaid:
            continue
        decides = flag.kind is Kind.LENGTH and isinstance(setting.value, str)
        value = ENGINE_DECIDES if decides else engine_value(setting.name, setting.value)
        found[flag.engine_flag.removeprefix("--").replace("-", "_")] = (
            list(value) if isinstance(value, tuple) else value
        )
    return found


def _row(name: str) -> str:
    return name.replace("_", "-")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    return str(value).removeprefix("torch.")


def _engine() -> ModuleType:
    try:
        import vllm
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        raise UsageError(
            "LLM and SamplingParams need the engine, and vllm is not installed here; "
            "install windlass-server[engine], or [engine-cpu], or use the serving image"
        ) from None
    module: ModuleType = vllm
    return module
