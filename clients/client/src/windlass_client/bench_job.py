"""A benchmark's Job beside a service: the served pod's image and model volume, without its GPUs. Pure.

`kubectl windlass bench` and the console make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_api.objects.reading import dig, is_ready, name_of
from windlass_api.objects.records import listed, mapped
from windlass_base.kube.errors import InvalidError

Document = dict[str, Any]
CONTAINER = "bench"
SERVER = "server"
LABELS = {"app.kubernetes.io/name": "windlass-bench", "app.kubernetes.io/component": "bench"}
SERVICE_LABEL = "serving.windlass.dev/benchmark-of"
MODEL = "/data/model"
KEYS = "/var/run/secrets/windlass-bench"
NAME_MAX = 52
"""Characters of the service's name in the Job's: a pod's name has as many again behind a Job's 63."""
AFTER_S = 3600
SHOWN_MAX = 500
"""Characters of a reason."""
ENDED = ("Succeeded", "Failed")
"""Phases of a pod that runs no more."""
DATA = ("persistentVolumeClaim", "nfs", "hostPath", "csi")
"""Volumes that may hold a model; all others of the pod are its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    words: tuple[str, ...]
    secret: str = ""
    tokenizer: str = ""
    cpu: str = "1"
    memory: str = "4Gi"
    minutes: int = 60


def job(service: Mapping[str, Any], pod: Mapping[str, Any], wanted: Wanted, mark: str) -> Document:
    """The Job beside this serving pod; `mark` makes its name the only one."""
    meta, spec = service["metadata"], pod["spec"]
    server = _server(spec)
    owner = {"apiVersion": service["apiVersion"], "kind": service["kind"], "name": meta["name"], "uid": meta["uid"]}
    labels = {**LABELS, SERVICE_LABEL: meta["name"][:63]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{meta['name'][:NAME_MAX]}-bench-{mark}",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": 60 * wanted.minutes,
            "ttlSecondsAfterFinished": AFTER_S,
            "template": {"metadata": {"labels": labels}, "spec": _pod(service, spec, server, wanted)},
        },
    }


def _server(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found = [one for one in spec.get("containers", ()) if one.get("name") == SERVER]
    if not found:
        raise InvalidError(f"its pods have no container {SERVER}, whose image the benchmark would take")
    return dict(found[0])


def _pod(service: Mapping[str, Any], spec: Mapping[str, Any], server: Mapping[str, Any], wanted: Wanted) -> Document:
    volumes, mounts = _data(spec, server)
    if wanted.secret:
        name, _, entry = wanted.secret.partition("/")
        items = {"items": [{"key": entry, "path": entry}]} if entry else {}
        volumes.append({"name": "keys", "secret": {"secretName": name, **items}})
        mounts.append({"name": "keys", "mountPath": KEYS, "readOnly": True})
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **{name: spec[name] for name in ("securityContext", "imagePullSecrets", "tolerations") if spec.get(name)},
        "affinity": _near(service),
        "containers": [_container(service, server, wanted, mounts)],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}],
    }


def _container(
    service: Mapping[str, Any], server: Mapping[str, Any], wanted: Wanted, mounts: list[Document]
) -> Document:
    resources = {"requests": {"cpu": wanted.cpu, "memory": "1Gi"}, "limits": {"memory": wanted.memory}}
    environment = {"HOME": "/tmp", "XDG_CACHE_HOME": "/tmp/cache", "HF_HUB_OFFLINE": "1"}  # noqa: S108 - an emptyDir
    environment |= {"VLLM_NO_USAGE_STATS": "1", "NVIDIA_VISIBLE_DEVICES": "void", "PYTHONUNBUFFERED": "1"}
    return {
        "name": CONTAINER,
        "image": server["image"],
        "imagePullPolicy": server.get("imagePullPolicy", "IfNotPresent"),
        "command": ["windlass", "bench", "serve"],
        "args": _arguments(service, server, wanted),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": resources,
        **({"securityContext": server["securityContext"]} if server.get("securityContext") else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the pod
    }


def _arguments(service: Mapping[str, Any], server: Mapping[str, Any], wanted: Wanted) -> list[str]:
    """The address of the service, the model's directory as tokenizer, then what the user adds."""
    meta = service["metadata"]
    port = next((one["containerPort"] for one in server.get("ports", ()) if one.get("name") == "http"), 8501)
    words = [f"--server=http://{meta['name']}.{meta['namespace']}.svc:{port}"]
    words += [f"--tokenizer={wanted.tokenizer or _model(server)}"]
    words += [f"--token-file={KEYS}"] if wanted.secret else []
    return [*words, "--output-dir=/tmp/bench", "--print-archive", *wanted.words]


def _model(server: Mapping[str, Any]) -> str:
    """The directory that the server's own arguments name."""
    args = [*server.get("command", ()), *server.get("args", ())]
    pairs = zip(args, [*args[1:], ""], strict=True)
    named = [after for word, after in pairs if word == "--model" and after]
    joined = [word.partition("=")[2] for word in args if word.startswith("--model=")]
    return str(next(iter([*named, *joined]), MODEL))


def _data(spec: Mapping[str, Any], server: Mapping[str, Any]) -> tuple[list[Document], list[Document]]:
    """The volumes that hold models, read-only, where the server has them."""
    volumes = [dict(one) for one in spec.get("volumes", ()) if any(kind in one for kind in DATA)]
    names = {one["name"] for one in volumes}
    mounts = [
        {**one, "readOnly": True}
        for one in server.get("volumeMounts", ())
        if one["name"] in names and one.get("readOnly")
    ]
    used = {one["name"] for one in mounts}
    return [one for one in volumes if one["name"] in used], mounts


def _near(service: Mapping[str, Any]) -> Document:
    """On a node of the service, if one has room: image and volume are there already."""
    labels = {"serving.windlass.dev/service": service["metadata"]["name"]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    }


def serving_pod(pods: Iterable[Mapping[str, Any]], service: str) -> Mapping[str, Any]:
    """A pod that serves, a ready one first: its image and volumes are the benchmark's."""
    running = [one for one in pods if dig(one, "status", "phase") == "Running"]
    if not running:
        raise InvalidError(f"service {service} has no running pod; see its status")
    return min(running, key=lambda one: (not is_ready(one), name_of(one)))


def waits_for(pod: Mapping[str, Any] | None) -> str:
    """Why the Job's container has not begun, in the cluster's words."""
    for one in listed(dig(pod, "status", "containerStatuses")):
        waiting = mapped(dig(one, "state", "waiting"))
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"{waiting['reason']}: {waiting.get('message', '')}"[:SHOWN_MAX]
    for condition in listed(dig(pod, "status", "conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))[:SHOWN_MAX]
    return ""


def has_begun(pod: Mapping[str, Any] | None) -> bool:
    """Whether the Job's container runs or ran."""
    states = [mapped(one.get("state")) for one in listed(dig(pod, "status", "containerStatuses"))]
    return any("running" in state or "terminated" in state for state in states)


def exit_code(pod: Mapping[str, Any]) -> int:
    """Of the container; 1 when the pod ended without one, by eviction for example."""
    for one in listed(dig(pod, "status", "containerStatuses")):
        ended = dig(one, "state", "terminated")
        if ended is not None:
            return int(mapped(ended).get("exitCode", 1))
    return 1
