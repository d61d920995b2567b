"""The environment of a serving container: what the server is told that is no flag. Users' variables win."""

from __future__ import annotations

import json
from collections.abc import Iterable

from windlass_api.crd.pods import EnvVar
from windlass_api.crd.v1alpha1 import LLMService

from windlass_operator.manifests.metadata import Manifest
from windlass_operator.manifests.sources import adapter_path

KEYS_PATH = "/etc/windlass/api-keys"
CACHE_PATH = "/cache"
LICENSE_PATH = "/var/run/secrets/windlass-license"
LICENSE_TOKEN = "token"  # noqa: S105  the file's name
FIXED = ("WINDLASS_LICENSE_TOKEN_FILE", "WINDLASS_LICENSE_PUBLIC_KEYS")
"""Variables that a service's `env` does not replace: they say whom a license server's answer is believed."""


def environment(
    service: LLMService, license_addresses: Iterable[str], license_keys: str = "", further: Iterable[Manifest] = ()
) -> list[Manifest]:
    """Our variables, then the user's, which win by name."""
    spec = service.spec
    addresses = spec.license.addresses or tuple(license_addresses)
    ours: list[Manifest] = [
        {"name": "MODEL_ID", "value": spec.model.id},
        {"name": "WINDLASS_SERVICE", "value": service.metadata.name},
        _downward("WINDLASS_POD_NAME", "metadata.name"),
        _downward("WINDLASS_POD_NAMESPACE", "metadata.namespace"),
        _downward("WINDLASS_POD_UID", "metadata.uid"),
        {"name": "WINDLASS_LICENSE_REQUIRED", "value": _word(spec.license.required)},
        *([{"name": "WINDLASS_LS_ADDR", "value": ",".join(addresses)}] if addresses else []),
        *_license_trust(service, license_keys),
        {"name": "HOME", "value": CACHE_PATH},
        {"name": "XDG_CACHE_HOME", "value": CACHE_PATH},
        {"name": "XDG_CONFIG_HOME", "value": f"{CACHE_PATH}/config"},
        *_from_spec(service),
        *further,
    ]
    users = [_users(one) for one in spec.env if one.name not in FIXED]
    named = {str(row["name"]): row for row in [*ours, *users]}
    return list(named.values())


def _license_trust(service: LLMService, keys: str) -> list[Manifest]:
    """How the license server knows the pod, and the pod the license server."""
    if not service.spec.license.required:
        return []
    token: Manifest = {"name": "WINDLASS_LICENSE_TOKEN_FILE", "value": f"{LICENSE_PATH}/{LICENSE_TOKEN}"}
    return [token, *([{"name": "WINDLASS_LICENSE_PUBLIC_KEYS", "value": keys}] if keys else [])]


def _from_spec(service: LLMService) -> list[Manifest]:
    """Settings that the server takes from the environment alone, or that `run` reads there for both image families."""
    spec = service.spec
    rows: list[Manifest] = []
    if not spec.engine.memory_cache:
        rows.append({"name": "DISABLE_MEM_CACHE", "value": "true"})
    if spec.engine.conv_template:
        rows.append({"name": "CONV_TEMPLATE", "value": spec.engine.conv_template})
    if spec.model.adapters:
        adapters = [
            {"name": one.name, "path": adapter_path(service, index), "merge": one.merge}
            for index, one in enumerate(spec.model.adapters)
        ]
        rows.append({"name": "LORA_MODULES", "value": json.dumps(adapters)})
    if spec.model.merge:
        rows.append({"name": "MERGE_LORA", "value": "true"})
    if spec.expose.keys_secret:
        rows.append({"name": "OPENAI_API_KEYS_FILE", "value": KEYS_PATH})
    return rows


def _users(one: EnvVar) -> Manifest:
    source = one.value_from
    if source is not None and source.secret_key_ref is not None:
        ref = source.secret_key_ref
        return {"name": one.name, "valueFrom": {"secretKeyRef": {"name": ref.name, "key": ref.key}}}
    if source is not None and source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        return {"name": one.name, "valueFrom": {"configMapKeyRef": {"name": ref.name, "key": ref.key}}}
    return {"name": one.name, "value": one.value}


def _downward(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _word(truth: bool) -> str:
    return "true" if truth else "false"
