"""The quantization method and how its weights are read: what was asked, the model and the cards in, settings out. Pure.

A step of `adjust`. A setting keeps the name that people know; `engine_value` is what the engine calls it.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass_sizing.placement import gpus
from windlass_sizing.quantization.decision import Decision, decide
from windlass_sizing.quantization.methods import NONE, SMOOTHQUANT_FILE
from windlass_sizing.quantization.question import CPU, Architecture, Card, Checkpoint
from windlass_sizing.settings.setting import CHECKPOINT, DEFAULT, Setting
from windlass_sizing.settings.values import Value

from windlass.engine.quantization import methods
from windlass.errors import UsageError
from windlass.launch.model import Machine, ModelFiles

METHOD, LOAD, BEYOND = "quantization", "load-format", "ignore-engine-limits"
LOADER = "windlass"
"""Our loader's name, as the plug-in registers it."""
Settings = dict[str, Setting]


def method(
    settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """The asked method, and the checkpoint's own, checked against model, cards and dtype."""
    said = settings.get(METHOD)
    name = str(said.value).lower() if said else NONE
    dtype = str(settings["dtype"].value) if "dtype" in settings else "auto"
    beyond = bool(settings[BEYOND].value) if BEYOND in settings else False
    found = decide(name, dtype, card(machine), *asked_of(model), beyond_limits=beyond)
    if found.problem:
        raise UsageError(found.problem.sentence())
    changed: Settings = {}
    if said or found.quantization:
        changed[METHOD] = Setting(METHOD, found.method, said.source if said else CHECKPOINT, found.why)
    if found.dtype:
        changed["dtype"] = Setting(
            "dtype", found.dtype, DEFAULT, f"{_needs_it(found, model)} computes in {found.dtype}"
        )
    told = [f"--{BEYOND} sets a limit of the engine aside: {found.beyond}"] if found.beyond else []
    return changed | _read(settings, model, found), told


def _needs_it(found: Decision, model: ModelFiles) -> str:
    return found.method if found.quantization else f"a {model.quantization} checkpoint"


def engine_value(name: str, value: Value) -> Value:
    """A setting's value in the engine's words."""
    row = methods.METHODS.get(str(value)) if name == METHOD else None
    return row.engine if row else value


def card(machine: Machine) -> Card:
    """What the engine computes on: of several cards the one that can least."""
    if machine.engine == "cpu":
        return CPU
    known = [(found.capability, gpu.name) for gpu in machine.gpus if (found := gpus.find(gpu.name))]
    if not known:
        return Card()
    capability, name = min(known)
    return Card(name, capability)


def asked_of(model: ModelFiles) -> tuple[Architecture, Checkpoint]:
    """What a decision asks of a model."""
    return (
        Architecture(model.model_type, model.has_experts, model.architecture, model.brings_code),
        Checkpoint(model.quantization or "", model.has_smoothquant_file, model.has_plain_weights),
    )


def _read(settings: Settings, model: ModelFiles, found: Decision) -> Settings:
    """Our loader, for weights that it keeps or finds quantized, and wherever smoothquant's file lies among others."""
    row = methods.METHODS.get(found.method)
    ours = row is not None and row.has_loader
    if LOAD in settings or not (ours or model.has_smoothquant_file):
        return {}
    why = "keeps quantized weights for the next start" if ours else f"leaves {SMOOTHQUANT_FILE} out"
    return {LOAD: Setting(LOAD, LOADER, DEFAULT, why)}
