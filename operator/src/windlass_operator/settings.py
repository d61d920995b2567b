"""The operator's own settings, read once from the environment that the chart writes.

Pure: `from_env` takes the environment as a mapping. A wrong value is one sentence that names the variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.errors import SettingsError

LOG_FORMAT, LOG_LEVEL = "WINDLASS_LOG_FORMAT", "WINDLASS_LOG_LEVEL"  # as json_lines reads them, which is not pure
LOG_FORMATS, LOG_LEVELS = ("text", "json"), ("debug", "info", "warning", "error")
TRACE_PROTOCOLS = ("grpc", "http/protobuf")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PORT_MAX = 65535
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?")
ANNOTATION = re.compile(r"[A-Za-z0-9.-]+/[A-Za-z0-9._-]*\*?")  # a key, or the beginning of keys


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was told at its start."""

    server_image: str  # repository of the serving image, without tag; perhaps with @sha256:…
    server_version: str  # its tag where an LLMService names none
    operator_image: str  # whole image of the inspect Job: the operator's own
    server_cpu_image: str = ""  # its like for pods without GPUs; empty: the same
    deepspeed_image: str = "windlass/deepspeed-gpu"  # repository for image.family deepspeed, without tag
    deepspeed_cpu_image: str = "windlass/deepspeed"  # its like for pods without GPUs
    image_pull_policy: str = "IfNotPresent"  # of the Jobs
    node_paths: tuple[str, ...] = ()  # directories of the nodes under which models may lie; none: no node paths
    license_addresses: tuple[str, ...] = ()
    license_required: bool = True  # False: no service needs a license, whatever its spec says
    license_public_keys: str = ""  # PEM text; serving pods believe answers that these issuers certified
    inspect_resources: Mapping[str, Any] | None = None  # requests and limits of inspect Jobs; None: the built-in ones
    download_resources: Mapping[str, Any] | None = None  # as above, of download Jobs
    download_env: tuple[tuple[str, str], ...] = ()  # of download Jobs: the cluster's way out
    job_log_env: tuple[tuple[str, str], ...] = ()  # how Jobs log; empty: text from info on
    server_log_env: tuple[tuple[str, str], ...] = ()  # how serving pods log
    traces_env: tuple[tuple[str, str], ...] = ()  # where serving pods of family vllm send their traces; none: nowhere
    traces_endpoint: str = ""  # where the operator sends its own, by OTLP over HTTP; empty: it makes none
    watch_namespaces: tuple[str, ...] = ()  # none: all namespaces
    ingress_annotations: tuple[str, ...] = ()  # allowed beside the built-in table; a row may end with *
    pod_annotations: tuple[str, ...] = ()  # as above, of spec.podTemplate
    group_network_policy: bool = True  # whether groups and replicas with API keys get one
    metrics_port: int = 9090  # 0: no /metrics and /readyz
    health_port: int = 8080  # 0: no /healthz
    lease_name: str = ""  # empty: the only replica, always the leader
    pod_name: str = ""
    pod_namespace: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """One environment variable of the operator, for `--help` and the docs."""

    name: str
    meaning: str
    default: str = ""
    required: bool = False


VARIABLES = (
    Variable(
        "WINDLASS_SERVER_IMAGE", "repository of the serving image, without a tag; @sha256:… may follow", required=True
    ),
    Variable("WINDLASS_SERVER_VERSION", "tag of the serving image where an LLMService names none", required=True),
    Variable("WINDLASS_OPERATOR_IMAGE", "whole image of the Jobs: the operator's own", required=True),
    Variable("WINDLASS_SERVER_CPU_IMAGE", "repository of the serving image for pods without GPUs; empty: the same"),
    Variable(
        "WINDLASS_DEEPSPEED_IMAGE", "repository of the image for image.family deepspeed", "windlass/deepspeed-gpu"
    ),
    Variable("WINDLASS_DEEPSPEED_CPU_IMAGE", "repository of its image for pods without GPUs", "windlass/deepspeed"),
    Variable("WINDLASS_IMAGE_PULL_POLICY", "pull policy of the Jobs: Always, IfNotPresent, Never", "IfNotPresent"),
    Variable(
        "WINDLASS_NODE_PATHS",
        "directories of the nodes under which hostPath and gooseFSx may point, comma-separated; empty: nowhere",
    ),
    Variable("WINDLASS_HTTPS_PROXY", "proxy by which download Jobs reach the hubs; empty: none"),
    Variable("WINDLASS_NO_PROXY", "hosts that download Jobs reach without it, comma-separated"),
    Variable("WINDLASS_HUB_CA", "PEM text of authorities that download Jobs trust beside the known ones; empty: none"),
    Variable("WINDLASS_INSPECT_RESOURCES", "requests and limits of inspect Jobs, as JSON; empty: the built-in ones"),
    Variable("WINDLASS_DOWNLOAD_RESOURCES", "requests and limits of download Jobs, as JSON; empty: the built-in ones"),
    Variable(
        "WINDLASS_LICENSE_REQUIRED", "false: no service needs a license, whatever its spec says: true, false", "true"
    ),
    Variable("WINDLASS_LS_ADDR", "license servers' base URLs, comma-separated; empty: the server's defaults"),
    Variable("WINDLASS_WATCH_NAMESPACE", "the namespaces to watch, comma-separated; empty: all"),
    Variable(
        "WINDLASS_INGRESS_ANNOTATIONS",
        "annotations that spec.expose.ingress may set beside the built-in ones, comma-separated; KEY or PREFIX*",
    ),
    Variable(
        "WINDLASS_POD_ANNOTATIONS",
        "annotations that spec.podTemplate may set though nodes act on them, comma-separated; KEY or PREFIX*",
    ),
    Variable(
        "WINDLASS_LICENSE_PUBLIC_KEYS",
        "PEM text of the license issuers' public keys, for serving pods; empty: they believe unsigned answers",
    ),
    Variable(
        "WINDLASS_GROUP_NETWORK_POLICY",
        "whether replicas over several nodes, and those with API keys, get a NetworkPolicy: true, false",
        "true",
    ),
    Variable("WINDLASS_METRICS_PORT", "port of /metrics and /readyz; 0 switches them off", "9090"),
    Variable("WINDLASS_HEALTH_PORT", "port of /healthz; 0 switches it off", "8080"),
    Variable("WINDLASS_LEASE_NAME", "Lease by which one of several replicas leads; empty: there is only one"),
    Variable(LOG_FORMAT, "log format of the operator and its Jobs: text, json", "text"),
    Variable(LOG_LEVEL, "their lowest level logged: debug, info, warning, error", "info"),
    Variable("WINDLASS_SERVER_LOG_FORMAT", "log format of serving pods: text, json", "text"),
    Variable("WINDLASS_SERVER_LOG_LEVEL", "their lowest level logged: debug, info, warning, error", "info"),
    Variable("WINDLASS_TRACES_ENDPOINT", "where serving pods send their traces by OTLP; empty: nowhere"),
    Variable("WINDLASS_TRACES_PROTOCOL", "how: grpc, http/protobuf", "grpc"),
    Variable(
        "WINDLASS_OPERATOR_TRACES_ENDPOINT",
        "where the operator sends traces of its own, always as http/protobuf; empty: to the other, if that takes them",
    ),
    Variable("WINDLASS_POD_NAME", "name of the operator's pod; with a Lease, its holder"),
    Variable("WINDLASS_POD_NAMESPACE", "namespace of the operator's pod and of the Lease"),
)


def from_env(env: Mapping[str, str]) -> Settings:
    """Read the settings; raises SettingsError with one sentence when one cannot be used."""
    values = {row.name: env.get(row.name, "").strip() or row.default for row in VARIABLES}
    for row in VARIABLES:
        if row.required and not values[row.name]:
            raise SettingsError(f"{row.name} is not set: give it the {row.meaning}")
    return Settings(
        server_image=_repository("WINDLASS_SERVER_IMAGE", values),
        server_version=values["WINDLASS_SERVER_VERSION"],
        operator_image=values["WINDLASS_OPERATOR_IMAGE"],
        server_cpu_image=_repository("WINDLASS_SERVER_CPU_IMAGE", values),
        deepspeed_image=_repository("WINDLASS_DEEPSPEED_IMAGE", values),
        deepspeed_cpu_image=_repository("WINDLASS_DEEPSPEED_CPU_IMAGE", values),
        node_paths=_directories("WINDLASS_NODE_PATHS", values),
        inspect_resources=_resources("WINDLASS_INSPECT_RESOURCES", values),
        download_resources=_resources("WINDLASS_DOWNLOAD_RESOURCES", values),
        download_env=(*_proxy(values), *_authorities(values["WINDLASS_HUB_CA"])),
        job_log_env=_logging("WINDLASS_LOG", values),
        server_log_env=_logging("WINDLASS_SERVER_LOG", values),
        traces_env=_traces(values),
        traces_endpoint=_own_traces(values),
        image_pull_policy=_one_of("WINDLASS_IMAGE_PULL_POLICY", values, PULL_POLICIES),
        license_required=_one_of("WINDLASS_LICENSE_REQUIRED", values, ("true", "false")) == "true",
        license_addresses=_addresses(values["WINDLASS_LS_ADDR"]),
        watch_namespaces=_namespaces("WINDLASS_WATCH_NAMESPACE", values),
        ingress_annotations=_annotations("WINDLASS_INGRESS_ANNOTATIONS", values),
        pod_annotations=_annotations("WINDLASS_POD_ANNOTATIONS", values),
        license_public_keys=_pem(values["WINDLASS_LICENSE_PUBLIC_KEYS"]),
        group_network_policy=_one_of("WINDLASS_GROUP_NETWORK_POLICY", values, ("true", "false")) == "true",
        metrics_port=_port("WINDLASS_METRICS_PORT", values),
        health_port=_port("WINDLASS_HEALTH_PORT", values),
        **_lease(values),
    )


def _repository(name: str, values: Mapping[str, str]) -> str:
    """A repository, with a digest or without; a colon may otherwise only stand before a slash, as a registry's port."""
    text = values[name]
    repository, mark, digest = text.partition("@")
    if mark and not DIGEST.fullmatch(digest):
        raise SettingsError(f'{name} is "{text}": write a digest as @sha256: and 64 hex digits')
    if ":" in repository.rsplit("/", 1)[-1]:
        raise SettingsError(f'{name} is "{text}": leave the tag out and put it into WINDLASS_SERVER_VERSION')
    return text


def _directories(name: str, values: Mapping[str, str]) -> tuple[str, ...]:
    paths = tuple(part.strip() for part in values[name].split(",") if part.strip())
    for path in paths:
        if not path.startswith("/") or ".." in path.split("/"):
            raise SettingsError(f'{name} holds "{path}": write directories as absolute paths without ".."')
    return paths


def _namespaces(name: str, values: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in values[name].split(",") if part.strip()))
    for namespace in found:
        if not NAMESPACE.fullmatch(namespace):
            raise SettingsError(f'{name} holds "{namespace}": a namespace has lower-case letters, digits and "-"')
    return found


def _annotations(name: str, values: Mapping[str, str]) -> tuple[str, ...]:
    rows = tuple(part.strip() for part in values[name].split(",") if part.strip())
    for row in rows:
        if not ANNOTATION.fullmatch(row):
            raise SettingsError(f'{name} holds "{row}": write DOMAIN/NAME, or DOMAIN/* for a whole domain')
    return rows


def _proxy(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    text = values["WINDLASS_HTTPS_PROXY"]
    if text and not text.startswith(("http://", "https://")):
        raise SettingsError(f'WINDLASS_HTTPS_PROXY is "{text}": begin it with http:// or https://')
    rows = (("HTTPS_PROXY", text), ("HTTP_PROXY", text), ("NO_PROXY", values["WINDLASS_NO_PROXY"]))
    return tuple((name, value) for name, value in rows if value)


def _authorities(text: str) -> tuple[tuple[str, str], ...]:
    if text and "-----BEGIN CERTIFICATE-----" not in text:
        raise SettingsError("WINDLASS_HUB_CA holds no certificate: give the authority's certificate as PEM text")
    return (("WINDLASS_HUB_CA", text),) if text else ()


def _resources(name: str, values: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Kubernetes' requests and limits; None where nothing is given."""
    if not values[name]:
        return None
    try:
        given = json.loads(values[name])
    except ValueError as error:
        raise SettingsError(f"{name} is no JSON: {error}") from error
    wrong = f'{name} is "{values[name]}": write {{"requests": {{"cpu": "50m"}}, "limits": {{"memory": "1Gi"}}}}'
    if not isinstance(given, dict) or not given.keys() <= {"requests", "limits"}:
        raise SettingsError(wrong)
    for row in given.values():
        if not isinstance(row, dict) or not all(QUANTITY.fullmatch(str(one)) for one in row.values()):
            raise SettingsError(wrong)
    return {part: {name: str(one) for name, one in row.items()} for part, row in given.items() if row}


def _one_of(name: str, values: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    if values[name] not in allowed:
        raise SettingsError(f'{name} is "{values[name]}": use one of {", ".join(allowed)}')
    return values[name]


def _traces(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """OpenTelemetry's own variables, which the engine reads."""
    endpoint = _url("WINDLASS_TRACES_ENDPOINT", values)
    protocol = _one_of("WINDLASS_TRACES_PROTOCOL", values, TRACE_PROTOCOLS)
    name = "OTEL_EXPORTER_OTLP_TRACES"
    return ((f"{name}_ENDPOINT", endpoint), (f"{name}_PROTOCOL", protocol)) if endpoint else ()


def _own_traces(values: Mapping[str, str]) -> str:
    """The operator speaks http/protobuf alone: gRPC's library takes 15 MiB of memory (ADR 74)."""
    shared = values["WINDLASS_TRACES_PROTOCOL"] == "http/protobuf"
    return _url("WINDLASS_OPERATOR_TRACES_ENDPOINT", values) or (values["WINDLASS_TRACES_ENDPOINT"] if shared else "")


def _url(name: str, values: Mapping[str, str]) -> str:
    if values[name] and not values[name].startswith(("http://", "https://")):
        raise SettingsError(f'{name} is "{values[name]}": begin it with http:// or https://')
    return values[name]


def _logging(prefix: str, values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that make a program log in this way; those at their defaults are left out of its pod."""
    chosen = (
        (LOG_FORMAT, _one_of(f"{prefix}_FORMAT", values, LOG_FORMATS), "text"),
        (LOG_LEVEL, _one_of(f"{prefix}_LEVEL", values, LOG_LEVELS), "info"),
    )
    return tuple((name, value) for name, value, default in chosen if value != default)


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            raise SettingsError(f'WINDLASS_LS_ADDR holds "{address}": each address begins with http:// or https://')
    return addresses


def _pem(text: str) -> str:
    if text and "-----BEGIN PUBLIC KEY-----" not in text:
        raise SettingsError("WINDLASS_LICENSE_PUBLIC_KEYS holds no public key: give the issuer's public.pem as it is")
    return text


def _lease(values: Mapping[str, str]) -> dict[str, str]:
    """A Lease needs a holder's name and a namespace."""
    lease = values["WINDLASS_LEASE_NAME"]
    for name in ("WINDLASS_POD_NAME", "WINDLASS_POD_NAMESPACE"):
        if lease and not values[name]:
            raise SettingsError(f"{name} is not set, and WINDLASS_LEASE_NAME is: the Lease needs both")
    pod, namespace = values["WINDLASS_POD_NAME"], values["WINDLASS_POD_NAMESPACE"]
    return {"lease_name": lease, "pod_name": pod, "pod_namespace": namespace}


def _port(name: str, values: Mapping[str, str]) -> int:
    text = values[name]
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise SettingsError(f'{name} is "{text}": use a port number from 1 to {PORT_MAX}, or 0 to switch it off')
    return int(text)
