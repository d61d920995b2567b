"""What must hold of every pod and Ingress that the operator renders, whatever the spec says.

Written from what Kubernetes does with a field, not from the operator's tables: it is what these are judged by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from windlass_operator.manifests.metadata import container_security, pod_security

Pod = Mapping[str, Any]
CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
POD_NEVER = (
    *(
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "hostUsers",
        "shareProcessNamespace",
        "serviceAccount",
        "serviceAccountName",
    ),
    *("nodeName", "ephemeralContainers", "os", "resources"),
)
VOLUME_KINDS = (*("configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral"),)
PROJECTED = ("configMap", "secret", "downwardAPI")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS = ("postStart", "preStop")
MODEL_PATH = "/data/model"
TOKEN_VOLUME = "license"
# Names of annotations whose value is configuration, an address or an expression, in any controller.
STEERING = re.compile(
    r"snippet|config|lua|script|auth|mirror|rewrite|middleware|alias|upstream|target$|hostname|canary|template|group\."
    r"|server-|modsecurity|opentelemetry|stream|errors|load-balancer|proxy-redirect|permanent-redirect|satisfy",
    re.IGNORECASE,
)
NOT_STEERING = ("haproxy.org/timeout-server", "haproxy-ingress.github.io/timeout-server")
OPENING = re.compile(r"[\x00-\x1f\x7f;{}$\"'`\\#]|[^\x20-\x7e]")


def pod_complaints(pod: Pod, model: Mapping[str, Any], plain: Pod) -> list[str]:
    """What is wrong with a serving pod; `model` is the model's volume, `plain` the same pod without podTemplate."""
    tokens = [row for row in plain["volumes"] if row["name"] == TOKEN_VOLUME]
    return [
        *(f"{field} is set" for field in POD_NEVER if field in pod),
        *_identity(pod),
        *(text for kind in CONTAINER_LISTS for row in pod.get(kind, ()) for text in _container(row)),
        *(text for row in pod.get("volumes", ()) for text in _volume(row, model, tokens)),
        *_read_only(pod, model),
        *_own_namespace(pod.get("affinity") or {}),
    ]


def _identity(pod: Pod) -> Iterator[str]:
    if pod.get("automountServiceAccountToken") is not False:
        yield "a token is mounted"
    if pod.get("securityContext") != pod_security():
        yield "the pod's security context is not the operator's"


def _container(row: Mapping[str, Any]) -> Iterator[str]:
    if row.get("securityContext") != container_security():
        yield f"{row.get('name')}: the security context is not the operator's"
    if row.get("volumeDevices"):
        yield "a device is used"
    if any("hostPort" in port or "hostIP" in port for port in row.get("ports") or () if isinstance(port, Mapping)):
        yield "a port of the node is taken"
    for mount in row.get("volumeMounts") or ():
        if isinstance(mount, Mapping) and mount.get("mountPropagation") == "Bidirectional":
            yield "mounts reach the node"
    lifecycle = row.get("lifecycle") or {}
    for action in (*(row.get(name) for name in PROBES), *(lifecycle.get(name) for name in HOOKS)):
        for way in ("httpGet", "tcpSocket"):
            if isinstance(action, Mapping) and isinstance(action.get(way), Mapping) and "host" in action[way]:
                yield f"the kubelet calls {action[way]['host']}"


def _volume(row: Mapping[str, Any], model: Mapping[str, Any], tokens: list[Pod]) -> Iterator[str]:
    if tokens and row.get("name") == TOKEN_VOLUME:  # the pod's token for the license server
        if row not in tokens:
            yield "the license token's volume is another"
        return
    kinds = [key for key in row if key != "name"]
    if row.get("name") == "model":
        if {key: row[key] for key in kinds} != model:
            yield "the model's volume is another"
        return
    yield from (f"a volume of kind {kind}" for kind in kinds if kind not in VOLUME_KINDS)
    for source in (row.get("projected") or {}).get("sources") or ():
        yield from (f"projected {kind}" for kind in source if kind not in PROJECTED)
    claim = ((row.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
    yield from (f"a claim with {key}" for key in ("volumeName", "dataSource", "dataSourceRef") if key in claim)


def _read_only(pod: Pod, model: Mapping[str, Any]) -> Iterator[str]:
    claim = (model.get("persistentVolumeClaim") or {}).get("claimName")
    rows = [row for row in pod.get("volumes", ()) if isinstance(row, Mapping)]
    reach = {"model"} | {
        row.get("name") for row in rows if claim and (row.get("persistentVolumeClaim") or {}).get("claimName") == claim
    }
    for kind in CONTAINER_LISTS:
        for row in pod.get(kind, ()):
            for mount in row.get("volumeMounts") or ():
                if mount.get("name") in reach and mount.get("readOnly") is not True:
                    yield f"{row.get('name')} may write to the model by {mount.get('mountPath')}"
    server = next(row for row in pod["containers"] if row["name"] == "server")
    at_model = [one["name"] for one in server["volumeMounts"] if _covers(str(one.get("mountPath")))]
    if at_model != ["model"]:
        yield f"at {MODEL_PATH} lies {at_model}"


def _covers(path: str) -> bool:
    plain = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    return f"{plain}/".startswith(f"{MODEL_PATH}/") or f"{MODEL_PATH}/".startswith(f"{plain.rstrip('/')}/")


def _own_namespace(affinity: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        for terms in (affinity.get(kind) or {}).values():
            for one in terms if isinstance(terms, list) else ():
                term = one.get("podAffinityTerm", one) if isinstance(one, Mapping) else {}
                if {"namespaces", "namespaceSelector"} & term.keys():
                    yield "affinity looks into other namespaces"


def ingress_complaints(ingress: Mapping[str, Any]) -> list[str]:
    """What is wrong with an Ingress's annotations."""
    found = []
    for key, value in (ingress["metadata"].get("annotations") or {}).items():
        if STEERING.search(key.partition("/")[2] or key) and key not in NOT_STEERING:
            found.append(f"{key} steers the controller")
        if OPENING.search(value) or len(value) > 1024:
            found.append(f"{key} has a value that leaves its place: {value[:40]!r}")
    return found
