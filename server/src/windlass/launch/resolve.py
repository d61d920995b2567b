"""Decides how the engine is started: command line, variables, model files and machine in, one `LaunchPlan` out. Pure.

A flag wins over its variable, a variable over `ti_model_config.json`, the file over the default. Each setting keeps
where it came from, so that `windlass run --explain` is this module's output and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from windlass.errors import UsageError
from windlass.launch import adjust, conflicts, values
from windlass.launch.flags import FLAGS, ROW, Effect, Flag, Kind
from windlass.launch.model import LaunchPlan, Machine, ModelFiles, Setting
from windlass.launch.parse import CommandLine, parse

FROM_FILE = "ti_model_config.json"
LONGER_IS_WANTED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
HIDDEN = "(hidden)"


def model_directory(argv: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Where the model's files are: needed before they can be read."""
    text, _ = _origins(ROW["model"], parse(argv), environment, None)[0]
    return text


def resolve(argv: tuple[str, ...], environment: Mapping[str, str], model: ModelFiles, machine: Machine) -> LaunchPlan:
    """The plan, or a UsageError with what to do instead."""
    line = parse(argv)
    settings = {flag.name: said for flag in FLAGS if (said := _said(flag, line, environment, model)) is not None}
    warnings = _without_effect(settings)
    for step in adjust.STEPS:
        changed, sentences = step(settings, machine, model, environment)
        settings |= changed
        warnings += sentences
    conflicts.check(_question(settings, machine, model, environment, line))
    engine = tuple(setting for setting in settings.values() if _reaches_engine(setting))
    return LaunchPlan(
        settings=tuple(settings[flag.name] for flag in FLAGS if flag.name in settings),
        engine_args=(*(word for setting in engine for word in _words(setting, hide=False)), *line.engine_words),
        shown_args=(*(word for setting in engine for word in _words(setting, hide=True)), *line.engine_words),
        warnings=tuple(warnings),
    )


def _said(flag: Flag, line: CommandLine, environment: Mapping[str, str], model: ModelFiles | None) -> Setting | None:
    """The first of flag, variable, file and default that says something."""
    found = _origins(flag, line, environment, model)
    if not found:
        return None
    text, source = found[0]
    origin = source if source == FROM_FILE else f"--{flag.name}" if source == "flag" else source
    return Setting(flag.name, values.read(flag, text, origin), source, secret=flag.secret)


def _origins(
    flag: Flag, line: CommandLine, environment: Mapping[str, str], model: ModelFiles | None
) -> list[tuple[str, str]]:
    from_file = model.model_id if model and flag.name == "served-model-name" else None
    said = [(line.said.get(flag.name), "flag")]
    said += [(environment.get(name) or None, f"variable {name}") for name in flag.variables]
    said += [(from_file, FROM_FILE), (flag.default, "default")]
    return [(text, source) for text, source in said if text is not None]


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


def _says_yes(setting: Setting) -> bool:
    return setting.value is True or (isinstance(setting.value, int) and setting.value > 1)


def _question(
    settings: dict[str, Setting],
    machine: Machine,
    model: ModelFiles,
    environment: Mapping[str, str],
    line: CommandLine,
) -> conflicts.Question:
    stretched = environment.get(LONGER_IS_WANTED) == "1" or any(
        w.startswith("--hf-overrides") for w in line.engine_words
    )
    known = replace(model, max_model_len=None) if stretched else model
    return conflicts.Question({name: setting.value for name, setting in settings.items()}, machine, known)


def _reaches_engine(setting: Setting) -> bool:
    unquantized = setting.name == "quantization" and setting.value == "none"
    return ROW[setting.name].effect is Effect.ENGINE and not unquantized


def _words(setting: Setting, *, hide: bool) -> tuple[str, ...]:
    """The setting as words of the engine's command line."""
    flag = ROW[setting.name]
    if flag.kind is Kind.SWITCH:
        return (flag.engine_flag,) if setting.value else (f"--no-{flag.name}",)
    if hide and flag.secret:
        return (flag.engine_flag, HIDDEN)
    if isinstance(setting.value, tuple):
        return (flag.engine_flag, *setting.value)
    return (flag.engine_flag, str(setting.value))
