"""License servers of the cluster as their Deployments have them, and the license that one answers with. Pure.

The plug-in's `license` and the console read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import yaml
from windlass_api.objects.reading import dig, name_of
from windlass_api.objects.records import listed, mapped

NAME = "windlass-license-server"
HOME = "kube-system"
PORT = 10080
TOKEN_VARIABLE = "WINDLASS_LICENSE_ADMIN_TOKEN"  # noqa: S105 - the name of the variable
DEPLOYMENTS = "/apis/apps/v1/deployments"
SELECTOR = {"labelSelector": f"app.kubernetes.io/name={NAME}"}


@dataclass(frozen=True, slots=True)
class LicenseServer:
    """One license server, as its Deployment has it."""

    namespace: str
    name: str
    """Of the Deployment and the Service; the chart's name, unless a value of the chart gives another."""
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    https: bool
    token: tuple[str, str] | None
    """The Secret with the admin token, and its entry; None when the server asks for none."""
    ready: int
    replicas: int

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def trusted(self) -> str:
        """The ConfigMap, made here and mounted by the chart, with the issuers' keys."""
        return f"{self.name}-trusted"

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {"namespace": self.namespace, "ready": self.ready, "replicas": self.replicas, "image": self.image}


def server_of(deployment: Mapping[str, Any]) -> LicenseServer:
    """A Deployment of the chart, read."""
    pod = mapped(dig(deployment, "spec", "template", "spec"))
    container = next((one for one in listed(pod.get("containers"))), {})
    variable = next((row for row in listed(container.get("env")) if row.get("name") == TOKEN_VARIABLE), None)
    secret = mapped(dig(variable or {}, "valueFrom", "secretKeyRef"))
    return LicenseServer(
        namespace=str(dig(deployment, "metadata", "namespace")),
        name=name_of(deployment),
        image=str(container.get("image")),
        pull_policy=str(container.get("imagePullPolicy") or "IfNotPresent"),
        pull_secrets=tuple(str(row.get("name")) for row in listed(pod.get("imagePullSecrets"))),
        https=any(str(word).startswith("--tls-dir") for word in container.get("args") or ()),
        token=(str(secret["name"]), str(secret["key"])) if secret.get("name") and secret.get("key") else None,
        ready=int(dig(deployment, "status", "readyReplicas") or 0),
        replicas=int(dig(deployment, "spec", "replicas") or 0),
    )


@dataclass(frozen=True, slots=True)
class License:
    """The license in force, from /ls/view."""

    customer: str
    appid: str
    limit: int
    expires: datetime
    uuids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs of one brand that a license names with one end; without their UUIDs where only numbers are shown."""

    brand: str
    count: int
    issued: datetime
    expires: datetime
    uuids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Granted:
    """What a license grants to whom."""

    customer: str
    appid: str
    limit: int
    grants: tuple[Grant, ...]

    @property
    def gpus(self) -> int:
        """All GPUs of the license."""
        return sum(one.count for one in self.grants)

    @property
    def expires(self) -> datetime:
        """The last end."""
        return max(one.expires for one in self.grants)


VIEW_DEPTH, SCALAR_MAX = 8, 1024  # levels of a view, and characters of one value


def granted_in(text: str) -> Granted | None:
    """The YAML of /ls/view, whole or in numbers; None when it is none."""
    try:
        read = _document(text)
        kinds: dict[tuple[str, datetime, datetime], list[str]] = {}
        counts = Counter[tuple[str, datetime, datetime]]()
        for row in read["gpuinfos"]:
            kind = (_scalar(row["brand"]), _moment(row["issuedtime"]), _moment(row["expiredtime"]))
            kinds.setdefault(kind, []).extend([_scalar(row["uuid"])] if "uuid" in row else [])
            counts[kind] += int(_scalar(row.get("count", 1)))
        grants = tuple(Grant(kind[0], counts[kind], *kind[1:], tuple(kinds[kind])) for kind in sorted(kinds))
        head = _scalar(read["customer"]), _scalar(read["appid"]), int(_scalar(read["accesslimit"]))
        return Granted(*head, grants) if grants else None
    except UNREADABLE:
        return None


def license_in(text: str) -> License | None:
    """The YAML of /ls/view; None when it is none, as of a server of another kind."""
    try:
        read = _document(text)
        rows = read["gpuinfos"]
        ends = [_moment(row["expiredtime"]) for row in rows]
        uuids = frozenset(_scalar(row["uuid"]) for row in rows)
        head = _scalar(read["customer"]), _scalar(read["appid"]), int(_scalar(read["accesslimit"]))
        return License(*head, max(ends), uuids)
    except UNREADABLE:
        return None


UNREADABLE = (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where the wheel has it: ten times as fast


def _document(text: str) -> Mapping[str, Any]:
    """The YAML; YAMLError where it has what no license needs.

    A server may be anybody's. A few aliases stand for gigabytes, a nested list for a deep stack, and a long number in
    base 60 for hours.
    """
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise yaml.YAMLError("a view has no anchors and aliases")
        if depth > VIEW_DEPTH or (isinstance(event, yaml.ScalarEvent) and len(event.value) > SCALAR_MAX):
            raise yaml.YAMLError("a view is not that deep, and has no values that long")
    read = yaml.load(text, Loader=LOADER)  # noqa: S506 - a safe loader, by either name
    if not isinstance(read, Mapping):
        raise TypeError("a view is a mapping")
    return read


def _scalar(value: object) -> str:
    """One word or number; TypeError for a list or a mapping."""
    if not isinstance(value, str | int | float | date):
        raise TypeError("a list or a mapping stands where a word belongs")
    return str(value)


def _moment(value: object) -> datetime:
    return (value if isinstance(value, datetime) else datetime.fromisoformat(_scalar(value))).astimezone()
