"""The quantization method and how its weights are read: what was asked, the model and the cards in, settings out. Pure.

A step of `adjust`. A setting keeps the name that people know; `engine_value` is what the engine calls it.
"""

from __future__ import annotations

from collections.abc import Mapping

from windlass_sizing import gpus

from windlass.errors import UsageError
from windlass.launch.model import DEFAULT, FLOAT16_OVERFLOWS, Machine, ModelFiles, Setting
from windlass.launch.values import Value
from windlass.quantization import methods
from windlass.quantization.methods import NAMES, NONE, Card, Checkpoint, Decision

METHOD, LOAD = "quantization", "load-format"
LOADER = "windlass"
"""Our loader's name, as the plug-in registers it."""
Settings = dict[str, Setting]


def method(
    settings: Settings, machine: Machine, model: ModelFiles, environment: Mapping[str, str]
) -> tuple[Settings, list[str]]:
    """One of our methods, checked against model and cards; the engine's own pass through."""
    said = settings.get(METHOD)
    name = str(said.value).lower() if said else NONE
    if problem := methods.unknown(name):
        raise UsageError(problem)
    if said is None or name not in NAMES:
        return _read(settings, model, Decision()), []
    dtype = str(settings["dtype"].value) if "dtype" in settings else "auto"
    found = methods.decide(name, card(machine), dtype, checkpoint(model))
    if found.problem:
        raise UsageError(found.problem)
    changed = {METHOD: Setting(METHOD, found.method.name if found.method else NONE, said.source, found.why)}
    if found.dtype:
        changed["dtype"] = Setting("dtype", found.dtype, DEFAULT, f"{name} computes in {found.dtype}")
    return changed | _read(settings, model, found), []


def engine_value(name: str, value: Value) -> Value:
    """A setting's value in the engine's words."""
    row = methods.METHODS.get(str(value)) if name == METHOD else None
    return row.engine if row else value


def card(machine: Machine) -> Card:
    """What the engine computes on: of several cards the one that can least."""
    if machine.engine == "cpu":
        return methods.CPU
    known = [(found.capability, gpu.name) for gpu in machine.gpus if (found := gpus.find(gpu.name))]
    if not known:
        return Card()
    (major, minor), name = min(known)
    return Card(name, 10 * major + minor)


def checkpoint(model: ModelFiles) -> Checkpoint:
    """What the methods ask of a model."""
    overflows = model.model_type if model.model_type in FLOAT16_OVERFLOWS else ""
    return Checkpoint(model.quantization or "", model.has_smoothquant_file, model.has_experts, overflows)


def _read(settings: Settings, model: ModelFiles, found: Decision) -> Settings:
    """Our loader, for weights that it keeps or finds quantized, and wherever smoothquant's file lies among others."""
    ours = found.method is not None and found.method.has_loader
    if LOAD in settings or not (ours or model.has_smoothquant_file):
        return {}
    why = "keeps quantized weights for the next start" if ours else f"leaves {methods.SMOOTHQUANT_FILE} out"
    return {LOAD: Setting(LOAD, LOADER, DEFAULT, why)}
