"""Random pieces of pods, annotations and whole specs, half of them hostile. The same seed gives the same draws."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

Piece = dict[str, Any]
CLAIM, SUB_PATH = "models", "qwen"
MODEL = {"persistentVolumeClaim": {"claimName": CLAIM}}
ADDRESSES = ("169.254.169.254", "127.0.0.1", "10.0.0.1", "kubernetes.default.svc", "::1", "")
CONTAINERS = ("server", "server", "side", "other")
VOLUMES = ("model", "license", "cache", "tmp", "shm", "x", "y")
PATHS = (
    "/data/model",
    "/data/model/",
    "//data//model",
    "/data/./model/x",
    "/data",
    "/",
    "/cache",
    "/tmp",
    "/w",
    "/w/x",
)


def _in_container(rng: random.Random, fields: Piece) -> Piece:
    kind = rng.choice(("containers", "containers", "initContainers"))
    return {kind: [{"name": rng.choice(CONTAINERS), **fields}]}


def _action(rng: random.Random) -> Piece:
    way = rng.choice(("httpGet", "tcpSocket", "exec", "grpc", "sleep"))
    host = {"host": rng.choice(ADDRESSES)} if rng.random() < 0.5 else {}
    return {
        "httpGet": {"httpGet": {"port": rng.choice((80, "http", 10250)), "path": "/", **host}},
        "tcpSocket": {"tcpSocket": {"port": 22, **host}},
        "exec": {"exec": {"command": ["true"]}},
        "grpc": {"grpc": {"port": 5000}},
        "sleep": {"sleep": {"seconds": 3}},
    }[way]


def _probe(rng: random.Random) -> Piece:
    return _in_container(rng, {rng.choice(("livenessProbe", "readinessProbe", "startupProbe")): _action(rng)})


def _hook(rng: random.Random) -> Piece:
    return _in_container(rng, {"lifecycle": {rng.choice(("postStart", "preStop")): _action(rng)}})


def _mount(rng: random.Random) -> Piece:
    extra = rng.choice(({}, {"readOnly": False}, {"subPath": "x"}, {"subPathExpr": "$(A)"}, {"readOnly": True},
                        {"mountPropagation": rng.choice(("Bidirectional", "HostToContainer"))}))  # fmt: skip
    mount = {"name": rng.choice(VOLUMES), "mountPath": rng.choice(PATHS), **extra}
    return _in_container(rng, {"volumeMounts": [mount]})


SOURCES: tuple[Callable[[random.Random], Piece], ...] = (
    lambda rng: {"emptyDir": {}},
    lambda rng: {"configMap": {"name": "a"}},
    lambda rng: {"secret": {"secretName": "a"}},
    lambda rng: {"persistentVolumeClaim": {"claimName": CLAIM}},
    lambda rng: {"persistentVolumeClaim": {"claimName": CLAIM, "readOnly": rng.random() < 0.5}},
    lambda rng: {"persistentVolumeClaim": {"claimName": "other"}},
    lambda rng: {"hostPath": {"path": "/"}},
    lambda rng: {"nfs": {"server": "a", "path": "/"}},
    lambda rng: {"csi": {"driver": "a"}},
    lambda rng: {"image": {"reference": "a"}},
    lambda rng: {"projected": {"sources": [_projected(rng)]}},
    lambda rng: {"ephemeral": {"volumeClaimTemplate": {"spec": _claim(rng)}}},
    lambda rng: {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
)


def _projected(rng: random.Random) -> Piece:
    return rng.choice((
        {"configMap": {"name": "a"}}, {"secret": {"name": "a"}},
        {"serviceAccountToken": {"path": "t", "audience": "https://elsewhere"}},
        {"podCertificate": {"signerName": "a.example/b", "keyType": "ED25519", "credentialBundlePath": "c"}},
        {"clusterTrustBundle": {"signerName": "a.example/b", "path": "c"}},
    ))  # fmt: skip


def _claim(rng: random.Random) -> Piece:
    extra = rng.choice(({}, {"volumeName": "of-team-b"}, {"dataSource": {"kind": "VolumeSnapshot", "name": "a"}},
                        {"dataSourceRef": {"kind": "X", "name": "a", "namespace": "team-b"}},
                        {"volumeMode": "Block"}))  # fmt: skip
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **extra}


def _volume(rng: random.Random) -> Piece:
    return {"volumes": [{"name": rng.choice(VOLUMES), **rng.choice(SOURCES)(rng)}]}


def _second_mount(rng: random.Random) -> Piece:
    """The model's claim again under another name, mounted somewhere."""
    name = rng.choice(("x", "again"))
    mount = {"name": name, "mountPath": rng.choice(("/w", "/cache/model")), "subPath": rng.choice((SUB_PATH, "other"))}
    piece = _in_container(rng, {"volumeMounts": [mount]})
    return {**piece, "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": CLAIM}}]}


def _affinity(rng: random.Random) -> Piece:
    scope = rng.choice(({}, {"namespaceSelector": {}}, {"namespaces": ["team-b"]}))
    term = {"topologyKey": "zone", "labelSelector": {}, **scope}
    weighted = {"weight": 1, "podAffinityTerm": term}
    rule = rng.choice((
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]},
    ))  # fmt: skip
    return {"affinity": {rng.choice(("podAffinity", "podAntiAffinity")): rule}}


def _field(rng: random.Random) -> Piece:
    return copy.deepcopy(rng.choice((
        {"hostNetwork": True}, {"hostPID": True}, {"hostIPC": True}, {"hostUsers": True}, {"nodeName": "a"},
        {"serviceAccountName": "admin"}, {"automountServiceAccountToken": True}, {"shareProcessNamespace": True},
        {"securityContext": {"runAsUser": 0}}, {"ephemeralContainers": [{"name": "a"}]}, {"os": {"name": "linux"}},
        {"runtimeClassName": "nvidia"}, {"schedulerName": "a"}, {"dnsPolicy": "Default"}, {"tolerations": [{}]},
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]}, {"terminationGracePeriodSeconds": 5},
        {"restartPolicy": "Never"}, {"activeDeadlineSeconds": 1}, {"enableServiceLinks": True},
    )))  # fmt: skip


def _container_field(rng: random.Random) -> Piece:
    return _in_container(rng, copy.deepcopy(rng.choice((
        {"securityContext": {"privileged": True}}, {"volumeDevices": [{"name": "x", "devicePath": "/dev/x"}]},
        {"ports": [{"containerPort": 80, "hostPort": 80}]}, {"ports": [{"containerPort": 80, "hostIP": "0.0.0.0"}]},
        {"ports": [{"containerPort": 9400, "name": "metrics"}]}, {"image": "a"}, {"env": [{"name": "A", "value": "b"}]},
        {"resources": {"limits": {"memory": "1Gi"}}}, {"restartPolicy": "Always"}, {"stdin": True},
        {"envFrom": [{"secretRef": {"name": "a"}}]}, {"terminationMessagePolicy": "File"},
    ))))  # fmt: skip


PIECES = (_probe, _hook, _mount, _mount, _volume, _volume, _second_mount, _affinity, _field, _container_field)


def piece(rng: random.Random) -> Piece:
    """One to three parts of a pod's spec, put together."""
    out: Piece = {}
    for _ in range(rng.choice((1, 1, 2, 3))):
        out = joined(out, rng.choice(PIECES)(rng))
    return out


def joined(one: Any, other: Any) -> Any:
    """Both: lists of named rows by their names, other lists one after the other."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        out = dict(one)
        for key, value in other.items():
            out[key] = joined(one[key], value) if key in one else value
        return out
    if isinstance(one, list) and isinstance(other, list):
        if all(isinstance(row, Mapping) and "name" in row for row in (*one, *other)):
            rows: dict[str, Any] = {row["name"]: row for row in one}
            for row in other:
                rows[row["name"]] = joined(rows.get(row["name"], {}), row)
            return list(rows.values())
        return [*one, *other]
    return other


CONTROLLERS = (
    *("nginx.ingress.kubernetes.io", "nginx.org", "haproxy.org", "haproxy-ingress.github.io", "ingress.kubernetes.io"),
    *("traefik.ingress.kubernetes.io", "alb.ingress.kubernetes.io", "konghq.com", "cert-manager.io", "example.com"),
    *("external-dns.alpha.kubernetes.io", "nginx.com", "kubernetes.io", "NGINX.ORG", "nginx.ingress.kubernetes.io."),
)
ANNOTATIONS = (
    *("server-snippet", "server-snippets", "location-snippets", "configuration-snippet", "stream-snippet"),
    *("config-backend", "config-frontend", "config-defaults", "config-tcp", "backend-config-snippet", "auth-snippet"),
    *(
        "auth-url",
        "auth-tls-match-cn",
        "auth-secret",
        "mirror-target",
        "mirror-host",
        "rewrite-target",
        "lua",
        "plugins",
    ),
    *("server-alias", "upstream-vhost", "router.middlewares", "group.name", "hostname", "target", "canary", "x"),
    *("load-balancer-attributes", "modsecurity-snippet", "permanent-redirect", "custom-http-errors", "path-rewrite"),
    *("proxy-read-timeout", "ssl-redirect", "limit-rps", "timeout-server", "cluster-issuer", "router.tls", "ttl"),
    *("allow-list", "proxy-body-size", "cors-allow-origin", "client-max-body-size", "ingress.class", "server-ssl"),
)
VALUES = (
    *("on", "3600", "5s", "32m", "10.0.0.0/8,192.168.0.0/16", "https://a.example", "*", "GET, PUT", ""),
    *("return 200;", "a\nserver { listen 1; }", "a\r\nX: y", "${jndi:x}", '"; } location / {', "`id`", "a # b", "\x00"),
    *("\u2028x", "x" * 1025, "x" * 1024, "{{ .x }}", "'; --", "\\", "\x7f", "ünï"),
)


USUAL = (
    *(
        "nginx.ingress.kubernetes.io/proxy-read-timeout",
        "nginx.ingress.kubernetes.io/limit-rps",
        "nginx.org/proxy-buffering",
    ),
    *("haproxy.org/timeout-server", "haproxy.org/allow-list", "cert-manager.io/cluster-issuer"),
    *("nginx.ingress.kubernetes.io/cors-allow-origin", "alb.ingress.kubernetes.io/healthcheck-path"),
)


def annotations(rng: random.Random) -> dict[str, str]:
    """Annotations of an Ingress: real keys of controllers, and values that try to leave their place."""
    rows: dict[str, str] = {}
    for _ in range(rng.choice((1, 1, 2, 4))):
        key = rng.choice((rng.choice(USUAL), f"{rng.choice(CONTROLLERS)}/{rng.choice(ANNOTATIONS)}"))
        key = rng.choice((*[key] * 8, key.upper(), f"{key} ", f"{key}\n", key.partition("/")[2]))
        rows[key] = rng.choice(VALUES)
    return rows
