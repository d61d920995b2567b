"""Adapters as settings: what the flags ask for, and what the plan of `windlass.engine.adapters` makes of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from windlass_sizing.model.lora import IN_A_BATCH
from windlass_sizing.settings import lora_modules
from windlass_sizing.settings.lora_modules import Given
from windlass_sizing.settings.setting import DEFAULT, MATCH, Setting
from windlass_sizing.settings.values import SWITCH_WORDS

from windlass.engine.adapters import cache, plan
from windlass.engine.adapters.model import ONLY, Adapter, AdapterPlan, Asked, Want
from windlass.errors import UsageError
from windlass.launch.model import ModelFiles

Settings: TypeAlias = dict[str, Setting]

ASKING = ("model", "base-model", "lora-modules", "enable-lora", "merge-lora")
"""Rows that say which directories are looked at."""
LEFT_AS_SAID = ("enable-lora", "max-lora-rank", "max-loras", "max-cpu-loras")


def asked(settings: Mapping[str, Setting], *, discovers: bool) -> Asked:
    """What the directories must be looked at for."""
    modules = settings.get("lora-modules")
    adapters = (
        tuple(lora_modules.read(item) for item in modules.value) if modules and isinstance(modules.value, tuple) else ()
    )
    said = settings.get("enable-lora")
    merge = _merge(settings, [adapter.name for adapter in adapters if adapter.merge])
    return Asked(
        model=str(settings["model"].value),
        base=_text(settings, "base-model"),
        given=adapters,
        origin=modules.source if modules else "",
        merge=merge,
        discovers=bool(merge) or (discovers and (said is None or bool(said.value))),
    )


def _merge(settings: Mapping[str, Setting], marked: list[str]) -> str:
    said = _text(settings, "merge-lora")
    is_yes = SWITCH_WORDS.get(said.lower())
    name = said if is_yes is None else ONLY if is_yes else ""
    names = list(dict.fromkeys([*([name] if name else []), *marked]))
    if len(names) > 1:
        raise UsageError(f"only one adapter can be merged, and {' and '.join(names)} are to be; choose one")
    return names[0] if names else ""


def decide(settings: Settings, model: ModelFiles, environment: Mapping[str, str], *, discovers: bool) -> AdapterPlan:
    """The plan of the adapters."""
    enabled, rank = settings.get("enable-lora"), settings.get("max-lora-rank")
    want = Want(
        served=_names(settings, model),
        base=model.weights_path,
        merge=asked(settings, discovers=discovers).merge,
        enabled=None if enabled is None else bool(enabled.value),
        max_rank=int(str(rank.value)) if rank else None,
        quantization=model.quantization,
        cache=cache.root(environment),
    )
    return plan.decide(model.adapters, want)


def _text(settings: Mapping[str, Setting], name: str) -> str:
    setting = settings.get(name)
    return str(setting.value) if setting else ""


def _names(settings: Settings, model: ModelFiles) -> tuple[str, ...]:
    said = settings.get("served-model-name")
    return said.value if said and isinstance(said.value, tuple) else (model.path,)


def changes(decided: AdapterPlan, settings: Settings, model: ModelFiles) -> Settings:
    """The settings that the plan makes."""
    changed = _weights(decided, settings, model)
    if decided.base_names:
        changed["served-model-name"] = _named(decided, settings)
    if decided.served:
        changed |= _served(decided, settings)
    elif "lora-modules" in settings:
        changed["lora-modules"] = Setting("lora-modules", (), settings["lora-modules"].source, "merged")
    if model.adapters.chat_template and "chat-template" not in settings and "conv-template" not in settings:
        why = "saved with the adapter"
        changed["chat-template"] = Setting("chat-template", model.adapters.chat_template, MATCH, why)
    return changed


def _weights(decided: AdapterPlan, settings: Settings, model: ModelFiles) -> Settings:
    """The directory that the engine loads, when it is not the one that was said."""
    said = settings["model"]
    if decided.merge:
        why = f"{model.weights_path} with {decided.merge.adapter.name} ({decided.merge.adapter.path}) merged into it"
        kept = {"merge-lora": settings["merge-lora"]} if "merge-lora" in settings else {}
        name = settings.get("served-model-name") or Setting("served-model-name", (model.path,), DEFAULT)
        return kept | {"model": Setting("model", decided.merge.target, said.source, why), name.name: name}
    if model.weights_path == model.path:
        return {}
    origin = settings.get("base-model")
    why = f"base of the adapter {model.path}" if model.adapters.own else f"base of the adapters in {model.path}"
    return {"model": Setting("model", model.weights_path, origin.source if origin else "adapter_config.json", why)}


def _named(decided: AdapterPlan, settings: Settings) -> Setting:
    if decided.merge:
        why = f"the adapter's name means the merged model too: {decided.merge.adapter.name}"
    else:
        why = f"the base alone; {', '.join(decided.lead)} is the adapter"
    said = settings.get("served-model-name")
    return Setting("served-model-name", decided.base_names, said.source if said else DEFAULT, why)


def _served(decided: AdapterPlan, settings: Settings) -> Settings:
    words = tuple(lora_modules.write(_as_given(adapter), adapter.path) for adapter in decided.served)
    origins = dict.fromkeys(adapter.origin for adapter in decided.served)
    why = "; ".join(f"{adapter.name}: {adapter.origin}, rank {adapter.rank}" for adapter in decided.served)
    count = len(decided.served)
    changed = {
        "enable-lora": Setting("enable-lora", True, DEFAULT, "there are adapters"),
        "lora-modules": Setting("lora-modules", words, ", ".join(origins), why),
        "max-lora-rank": Setting("max-lora-rank", decided.rank, DEFAULT, "holds the largest rank"),
        "max-loras": Setting("max-loras", min(count, IN_A_BATCH), DEFAULT, "adapters in one step of the engine"),
    }
    if count > IN_A_BATCH:
        # The engine refuses fewer places in memory than in one step.
        places = max(count, int(str(settings.get("max-loras", changed["max-loras"]).value)))
        changed["max-cpu-loras"] = Setting("max-cpu-loras", places, DEFAULT, "all of them stay in memory")
    return {name: settings[name] if name in settings and name in LEFT_AS_SAID else changed[name] for name in changed}


def _as_given(adapter: Adapter) -> Given:
    return adapter.given or Given(adapter.name, adapter.path)
