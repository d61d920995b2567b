"""Decides how the engine is started: command line, variables, model files and machine in, one `LaunchPlan` out. Pure.

A flag wins over its variable, a variable over `ti_model_config.json`, the file over what `templates` matches, a match
over what `parsers` finds in the checkpoint, the checkpoint over the default. Each setting keeps where it came from, so
that `windlass run --explain` is this module's output and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from windlass_sizing import engine_flags
from windlass_sizing.model import context_length
from windlass_sizing.settings import engine_words, legacy
from windlass_sizing.settings.flags import BY_NAME, FLAGS, ROW, Effect, Kind
from windlass_sizing.settings.in_force import Layers, Settings, settings_in_force
from windlass_sizing.settings.parse import CommandLine, parse
from windlass_sizing.settings.setting import DEFAULT, FROM_FILE, MATCH, Setting

from windlass.engine.adapters.model import Asked
from windlass.errors import UsageError, usage_errors
from windlass.group import arguments
from windlass.launch import (
    adjust,
    conflicts,
    cpu,
    dry_run,
    graphs,
    host_drafts,
    lookahead,
    loopback,
    lora,
    prefix_offload,
    processes,
    quantize,
    sampling,
    sequence_parallel,
    speculation,
    templates,
)
from windlass.launch.front import front
from windlass.launch.inputs import LaunchInputs
from windlass.launch.model import LaunchPlan, Machine, ModelFiles, PlannedFile


@dataclass(frozen=True, slots=True)
class Style:
    """How a start command reads what it was not told: `run` fills in, the engine's own commands leave to the engine."""

    has_variables: bool
    leaves_defaults: bool
    discovers: bool
    """Whether adapters of the model directory are served that nobody named."""
    steps: tuple[adjust.Step, ...]


RUN = Style(has_variables=True, leaves_defaults=False, discovers=True, steps=adjust.STEPS)
NATIVE = Style(has_variables=False, leaves_defaults=True, discovers=False, steps=adjust.NATIVE_STEPS)
ENGINES_OWN = (("quantization", "none"), ("worker-num", 1), ("lora-modules", ()), ("reasoning-parser", "none"))
"""Values that mean: leave the engine's flag out."""


@usage_errors()
def model_directory(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> str:
    """Where the model's files are: needed before they can be read."""
    layers = _layers(parse(argv), environment if style.has_variables else {})
    text, _ = next(layers.texts(ROW["model"]))
    return text


@usage_errors()
def looked_for(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> Asked:
    """Which directories to look at, and for what: needed before they can be read.

    UsageError for a word of nobody: a misspelled --model must not be told as a model that is not there.
    """
    known, line = environment if style.has_variables else {}, parse(argv)
    rows = (ROW[name] for name in (*lora.ASKING, engine_words.ALLOW))
    given = settings_in_force(_layers(line, known), rows).checked().rows
    modern = legacy.modern(line, known)[0]
    _check_words(given, modern)
    drafting = speculation.requested(modern.engine_words)
    return replace(lora.asked(given, discovers=style.discovers), draft=drafting.directory if drafting else "")


@usage_errors()
def settings_given(
    argv: tuple[str, ...], environment: Mapping[str, str], model: ModelFiles, style: Style = RUN
) -> Settings:
    """The settings before machine and checkpoint change any; UsageError for a text that cannot be read."""
    line, _ = legacy.modern(parse(argv), environment if style.has_variables else {})
    return _settings(line, environment, model, style)


@usage_errors()
def resolve(
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    model: ModelFiles,
    machine: Machine,
    style: Style = RUN,
) -> LaunchPlan:
    """The plan, or a UsageError with what to do instead."""
    line, warnings = legacy.modern(parse(argv), environment if style.has_variables else {})
    settings = _kept(_settings(line, environment, model, style), style)
    _check_words(settings, line)
    line, notes = _drafted(line, settings, model)
    line, on_host = host_drafts.taken(line, settings)
    warnings += [*notes, *_without_effect(settings), *host_drafts.notes(settings)]
    for step in style.steps:
        changed, sentences = step(settings, machine, model, environment)
        settings |= changed
        warnings += sentences
    group_words = _group_words(machine, line)
    adapters = lora.decide(settings, model, environment, discovers=style.discovers)
    settings |= lora.changes(adapters, settings, model)
    conflicts.check(_question(settings, machine, model, environment, line))
    start = LaunchInputs(settings, machine, model, line.engine_words, environment, on_host)
    if not style.leaves_defaults:
        settings |= processes.chosen(start)  # `start` holds this mapping
    processes.check(start)
    drafts, offload = lookahead.decide(start), prefix_offload.decide(start)
    split = sequence_parallel.decide(start)
    others = (*drafts.arguments, *offload.arguments, *split.arguments)
    dry = dry_run.decide(start, others)
    api = front(settings, model, line.engine_words, adapters, environment.get(sampling.PLUGINS_VARIABLE))
    engine = tuple(setting for setting in settings.values() if _reaches_engine(setting))
    return LaunchPlan(
        settings=tuple(settings[flag.name] for flag in FLAGS if flag.name in settings),
        engine_args=(
            *(*_all_words(engine), *api.arguments),
            *dry.arguments,
            *(() if style.leaves_defaults else (*graphs.arguments(start, others), *cpu.executor(start))),
            *(*group_words, *(line.engine_words if drafts.changed is None else drafts.changed)),
        ),
        warnings=(*warnings, *adapters.notes, *drafts.notes, *offload.notes, *split.notes, *dry.notes),
        files=_files(settings, model),
        merge=adapters.merge,
        variables={
            **api.variables,
            **drafts.variables,
            **dry.variables,
            **_variables(settings, machine, environment, line),
        },
    )


def _variables(
    settings: Mapping[str, Setting], machine: Machine, environment: Mapping[str, str], line: CommandLine
) -> dict[str, str]:
    """Of the engine's processes, for the machine that they run on."""
    return {
        **cpu.variables(settings, machine, environment),
        **loopback.variables(machine, line.engine_words, environment),
    }


def _drafted(line: CommandLine, settings: dict[str, Setting], model: ModelFiles) -> tuple[CommandLine, tuple[str, ...]]:
    """The line with what drafts, held to its files; the engine's own configuration takes the setting of its tokens."""
    context = None if host_drafts.is_asked(settings) else _context(settings, model)  # the host reads a text's end alone
    drafted = speculation.decide(line, settings.get(legacy.TOKENS), model, context)
    if drafted.is_asked:
        settings.pop(legacy.TOKENS, None)
    return drafted.line, drafted.notes


def _check_words(settings: Mapping[str, Setting], line: CommandLine) -> None:
    """UsageError for a word that the engine's parser would refuse, unless somebody knows better."""
    allowed = settings.get(engine_words.ALLOW)
    if not (allowed and allowed.value):
        engine_words.check(line.engine_words, engine_flags.record(), (*BY_NAME, *legacy.NAMES))


def _settings(line: CommandLine, environment: Mapping[str, str], model: ModelFiles, style: Style) -> Settings:
    layers = _layers(line, environment, model) if style.has_variables else Layers(line)
    return settings_in_force(layers).checked()


def _kept(settings: Settings, style: Style) -> dict[str, Setting]:
    """Every row that is given, or with `run` has a default."""
    kept = {"model"} if style.leaves_defaults else set(settings.rows)
    return {name: setting for name, setting in settings.rows.items() if name in kept or setting.source != DEFAULT}


def _layers(line: CommandLine, environment: Mapping[str, str], model: ModelFiles | None = None) -> Layers:
    files = {"served-model-name": model.model_id, "conv-template": model.conv_template} if model else {}
    below = {name: (text, FROM_FILE) for name, text in files.items() if text is not None}
    return Layers(line, environment=environment, below=below)


def _group_words(machine: Machine, line: CommandLine) -> tuple[str, ...]:
    if machine.group is None:
        return ()
    arguments.check_words(machine.group, line.engine_words)
    return arguments.engine_words(machine.group)


def _without_effect(settings: dict[str, Setting]) -> list[str]:
    """One sentence for each flag that is accepted only; a flag that this version lacks is an error when it says yes."""
    sentences = []
    for setting in settings.values():
        flag = ROW[setting.name]
        if flag.effect is Effect.NONE:
            sentences.append(f"--{flag.name} has no effect: {flag.instead}")
        if flag.effect is Effect.MISSING and _says_yes(setting):
            raise UsageError(f"--{flag.name} {setting.shown} is not in this version; {flag.instead}")
    return sentences


def _context(settings: Mapping[str, Setting], model: ModelFiles) -> int | None:
    length = settings.get("max-model-len")
    return length.value if length and isinstance(length.value, int) else model.max_model_len


def _says_yes(setting: Setting) -> bool:
    return setting.value is True or (isinstance(setting.value, int) and setting.value > 1)


def _question(
    settings: dict[str, Setting],
    machine: Machine,
    model: ModelFiles,
    environment: Mapping[str, str],
    line: CommandLine,
) -> conflicts.Question:
    stretched = environment.get(context_length.LONGER_IS_WANTED) == "1"
    stretched = stretched or context_length.OVERRIDES in engine_words.flags(line.engine_words)
    known = replace(model, max_model_len=None) if stretched else model
    settled = {name: setting.value for name, setting in settings.items()}
    return conflicts.Question(settled, machine, known, line.engine_words)


def _files(settings: dict[str, Setting], model: ModelFiles) -> tuple[PlannedFile, ...]:
    directory = settings.get("generation-config")
    if directory is None or directory.source != MATCH:
        return ()
    row = templates.BY_NAME[str(settings["conv-template"].value).lower()]
    tokens = templates.more_stops(row, model.generation, model.vocab_size)
    text = templates.generation_config(model.generation, tokens)
    return (PlannedFile(f"{directory.value}/generation_config.json", text),)


def _reaches_engine(setting: Setting) -> bool:
    flag = ROW[setting.name]
    return flag.effect is Effect.ENGINE and (setting.name, setting.value) not in ENGINES_OWN


def _all_words(settings: Iterable[Setting]) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in _words(setting))


def _words(setting: Setting) -> tuple[str, ...]:
    """The setting as words of the engine's command line."""
    flag = ROW[setting.name]
    if flag.kind is Kind.SWITCH:
        return (flag.engine_flag,) if setting.value else (f"--no-{flag.name}",)
    if isinstance(setting.value, tuple):
        return (flag.engine_flag, *setting.value)
    return (flag.engine_flag, str(quantize.engine_value(setting.name, setting.value)))
