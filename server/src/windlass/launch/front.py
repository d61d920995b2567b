"""What stands in front of the engine's API: the guard's settings and the keys, as words and variables. Pure.

Keys go through the environment, never the command line: every process of a machine may read command lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from windlass_sizing.settings.setting import Setting
from windlass_sizing.settings.values import Value

from windlass.api.media import engine_media
from windlass.api.tracing import TRACES_VARIABLE
from windlass.engine.adapters.model import AdapterPlan
from windlass.front.scan import JsonLimits
from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings
from windlass.launch import sampling
from windlass.launch.model import ModelFiles

GUARD = "windlass.api.guard.Guard"
MIB = 1024**2
ENGINE_KEY_VARIABLE = "VLLM_API_KEY"
NO_ADAPTERS = AdapterPlan()
Settings: TypeAlias = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Front:
    """Words for the engine's command line, and variables of its process."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]


def front(
    settings: Settings,
    model: ModelFiles,
    words: Sequence[str] = (),
    adapters: AdapterPlan = NO_ADAPTERS,
    plugins: str | None = None,
) -> Front:
    """The guard, as these settings want it.

    `words` are the engine's own of the command line, `plugins` is the variable VLLM_PLUGINS.
    """
    domains = _names(settings, "allowed-media-domains")
    media = engine_media(domains)
    workers = _whole(settings, "worker-num", 1)
    api = ApiSettings(
        served_names=(*adapters.lead, *(_names(settings, "served-model-name") or (model.path,))),
        lora_names=tuple(adapter.name for adapter in adapters.served),
        metrics_closed=bool(_value(settings, "close-metrics")),
        max_body_bytes=_whole(settings, "max-request-mib", 32) * MIB,
        max_json_bytes=_whole(settings, "max-json-mib", 8) * MIB,
        max_json_values=max(JsonLimits().values, 2 * (model.max_model_len or 0)),  # a prompt may be a list of tokens
        allowed_hosts=_names(settings, "allowed-hosts"),
        opened_routes=_names(settings, "opened-routes"),
        image_domains=domains,
        concurrency=_whole(settings, "limit-worker-concurrency", 128) * workers,
        queue=_whole(settings, "max-waiting-requests", 512),
        processes=_whole(settings, "api-server-count", 1),
        keys_file=str(_value(settings, "api-keys-file") or ""),
        generation_fields=tuple(sorted(model.generation)),
        quantization=str(_value(settings, "quantization") or model.quantization or "none"),
        no_repeat_missing=sampling.missing(model, words, plugins),
    )
    # The engine's own check of keys would guard some routes only, and answer in another form.
    variables = {SETTINGS_VARIABLE: api.to_json(), ENGINE_KEY_VARIABLE: "", **media.variables}
    if _value(settings, "otlp-traces-endpoint"):
        variables[TRACES_VARIABLE] = "1"
    if keys := _names(settings, "api-keys"):
        variables[KEYS_VARIABLE] = ",".join(keys)
    rules = sampling.arguments(model, words, plugins)
    # The guard counts the cached tokens of prompts, which the engine reports only by a flag.
    return Front(
        ("--middleware", GUARD, "--enable-prompt-tokens-details", *media.arguments, *rules),
        variables,
    )


def _value(settings: Settings, name: str) -> Value | None:
    setting = settings.get(name)
    return setting.value if setting else None


def _whole(settings: Settings, name: str, default: int) -> int:
    value = _value(settings, name)
    return default if value is None else int(str(value))


def _names(settings: Settings, name: str) -> tuple[str, ...]:
    value = _value(settings, name)
    return value if isinstance(value, tuple) else ()
