"""`spec.podTemplate` laid over a serving pod: the way out for what has no field of its own, and never a privilege.

An allow-list, not a block-list: a field that a later Kubernetes invents is refused until somebody thought about it.
What is allowed can at most move the pod, add a side container under our own security context, or mount what the
service's namespace holds anyway. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from windlass_operator.manifests.metadata import Manifest, container_security
from windlass_operator.manifests.volume import VOLUME_NAME

WHERE = "spec.podTemplate.spec"
POD_FIELDS = (
    *("affinity", "tolerations", "nodeSelector", "topologySpreadConstraints", "priorityClassName", "schedulerName"),
    *("runtimeClassName", "terminationGracePeriodSeconds", "dnsPolicy", "dnsConfig", "hostAliases", "hostname"),
    *("imagePullSecrets", "schedulingGates", "preemptionPolicy", "readinessGates", "setHostnameAsFQDN"),
    *("containers", "initContainers", "volumes", "resourceClaims", "overhead"),
)
CONTAINER_FIELDS = (
    *("name", "image", "imagePullPolicy", "command", "args", "env", "envFrom", "ports", "resources", "workingDir"),
    *("volumeMounts", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicy"),
    *("terminationMessagePath", "terminationMessagePolicy", "stdin", "tty"),
)
VOLUME_KINDS = ("configMap", "secret", "emptyDir", "persistentVolumeClaim", "projected", "downwardAPI", "ephemeral")
# Lists that are merged by a key; every other list is replaced.
ROW_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "env": "name",
    "ports": "containerPort",
    "imagePullSecrets": "name",
}
ADDED_TO = ("tolerations", "topologySpreadConstraints")  # rows without a key that are added, not replaced


def laid_over(pod: Manifest, wish: Mapping[str, Any]) -> Manifest:
    """The pod's spec with a judged wish laid over it."""
    merged = _merge(pod, wish)
    return {**merged, **_secured(merged, pod)}


def judge(wish: Mapping[str, Any]) -> None:
    """ValueError with a sentence where the wish could raise a privilege."""
    _only(WHERE, wish, POD_FIELDS)
    for kind in ("containers", "initContainers"):
        for index, row in enumerate(_rows(WHERE, wish, kind)):
            where = f"{WHERE}.{kind}[{index}]"
            if not isinstance(row.get("name"), str) or not row["name"]:
                raise ValueError(f"{where}: name is missing; the serving container's name is server")
            _only(where, row, CONTAINER_FIELDS)
            _lifecycle(where, row)
    for index, row in enumerate(_rows(WHERE, wish, "volumes")):
        where = f"{WHERE}.volumes[{index}]"
        if not isinstance(row.get("name"), str) or not row["name"]:
            raise ValueError(f"{where}: name is missing")
        _only(where, row, ("name", *VOLUME_KINDS))
        _no_token(where, row)


def _only(where: str, row: Mapping[str, Any], allowed: Iterable[str]) -> None:
    allowed = tuple(allowed)
    for field in row:
        if field not in allowed:
            raise ValueError(
                f"{where}.{field} is not allowed, since it could raise the pod's privileges or break what the "
                f"operator keeps; allowed are {', '.join(allowed)}"
            )


def _lifecycle(where: str, row: Mapping[str, Any]) -> None:
    ports = row.get("ports")
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, Mapping) and ("hostPort" in port or "hostIP" in port):
            raise ValueError(f"{where}.ports: hostPort is not allowed; use a Service")


def _no_token(where: str, row: Mapping[str, Any]) -> None:
    projected = row.get("projected")
    sources = projected.get("sources") if isinstance(projected, Mapping) else None
    for source in sources if isinstance(sources, list) else ():
        if isinstance(source, Mapping) and ("serviceAccountToken" in source or "clusterTrustBundle" in source):
            raise ValueError(f"{where}.projected: a service account's token is not given to serving pods")


def _rows(where: str, wish: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    rows = wish.get(field, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"{where}.{field} must be a list of objects")
    return rows


def with_part(pod: Manifest, part: Manifest) -> Manifest:
    """The pod's spec with a part of our own laid over it, by the same rules of merging."""
    return _merge(pod, part)


def _merge(ours: Mapping[str, Any], wish: Mapping[str, Any]) -> Manifest:
    out = dict(ours)
    for field, value in wish.items():
        out[field] = _merged(field, out.get(field), value)
    return out


def _merged(field: str, ours: object, value: object) -> object:
    if isinstance(ours, Mapping) and isinstance(value, Mapping):
        return _merge(ours, value)
    if isinstance(ours, list) and isinstance(value, list):
        if field in ADDED_TO:
            return [*ours, *value]
        if field in ROW_KEYS:
            return _merge_rows(ROW_KEYS[field], ours, value)
    return value


def _merge_rows(key: str, ours: list[Any], wished: list[Any]) -> list[Any]:
    if not all(isinstance(row, Mapping) and isinstance(row.get(key), str | int | None) for row in (*ours, *wished)):
        return wished  # the API server tells what is wrong with it
    by_key = {row.get(key): row for row in ours}
    for row in wished:
        by_key[row.get(key)] = _merge(by_key.get(row.get(key), {}), row)
    return list(by_key.values())


def _secured(merged: Manifest, pod: Manifest) -> Manifest:
    """Every container under our own security context; what belongs to the pod as a whole stays ours."""
    out: Manifest = {"securityContext": pod["securityContext"], "automountServiceAccountToken": False}
    for kind in ("containers", "initContainers"):
        if kind in merged:
            out[kind] = [_container(row) for row in merged[kind]]
    return out


def _container(row: Manifest) -> Manifest:
    """Under our security context, with the model for reading only, and telling the end of its log when it fails."""
    wished = row.get("volumeMounts")
    mounts = [
        {**one, "readOnly": True} if isinstance(one, Mapping) and one.get("name") == VOLUME_NAME else one
        for one in (wished if isinstance(wished, list) else ())
    ]
    told = {**row, "terminationMessagePolicy": row.get("terminationMessagePolicy", "FallbackToLogsOnError")}
    return {**told, "securityContext": container_security(), **({"volumeMounts": mounts} if mounts else {})}
