"""The Job that fills a volume from a hub: one for each target in a namespace, however many services want it.

Its label is made of what is put where and of nothing else, so that every service that wants the same finds the same
Job, also one of an earlier operator. Its name begins with that of the first service. Services share it as owners; the
last one that goes takes it along.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from windlass_api.crd.model import DownloadSpec
from windlass_api.crd.v1alpha1 import API_VERSION, KIND, LLMService
from windlass_api.names import COMPONENT_LABEL, DOWNLOAD, SERVICE_LABEL

from windlass_operator.manifests.job_placement import placed, placement_mark
from windlass_operator.manifests.metadata import (
    JOB_NAME_MAX,
    Manifest,
    container_security,
    labels,
    name_with,
    pod_security,
)
from windlass_operator.manifests.volume import ROOT_PATH, VOLUME_NAME, ModelVolume, model_volume

DOWNLOAD_LABEL = "serving.windlass.dev/download"
RESOURCE_GROUP_LABEL = "serving.windlass.dev/resource-group"
TOKEN_VARIABLE = "WINDLASS_HUB_TOKEN"  # noqa: S105 - a variable's name
LOG_FORMAT = "WINDLASS_LOG_FORMAT"
GPU_LABEL = "nvidia.com/gpu.product"
FACTS_PORT = 8502
BACKOFF_LIMIT = 6


def download_digest(service: LLMService) -> str:
    """What is put where, in eight digits; ValueError for a service that downloads nothing."""
    volume, download = model_volume(service.spec.model.source), _download(service)
    what = [volume.looked_at, volume.path, download.hub, download.name, download.revision, download.endpoint]
    text = json.dumps([*what, sorted(download.include), sorted(download.exclude)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def download_labels(service: LLMService) -> dict[str, str]:
    """The labels that find the Job of the service's download, and its pods."""
    return {COMPONENT_LABEL: DOWNLOAD, DOWNLOAD_LABEL: download_digest(service)}


def download_owners(services: Sequence[LLMService]) -> list[Manifest]:
    """One owner reference for each service, in an order that never changes."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": service.metadata.name,
            "uid": service.metadata.uid,
            "controller": False,  # only one owner may be that, and these are equals
            "blockOwnerDeletion": False,
        }
        for service in sorted(services, key=lambda one: one.metadata.uid or "")
    ]


def download_job(
    services: Sequence[LLMService],
    image: str,
    pull_policy: str,
    environment: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
) -> Manifest:
    """The Job of services that want the same (`download_digest`); ValueError when there is none.

    What they may differ in (token, pull secrets, resource group, nodes, fsGroup, connections) comes from the first by
    name that says it. `environment` are the cluster's ways out: HTTPS_PROXY, NO_PROXY, WINDLASS_HUB_CA. `resources`
    are the requests and limits that the installation gives. A Job's pod never changes, so an existing Job takes only
    new owners.
    """
    if not services:
        raise ValueError("a download without a service")
    by_name = sorted(services, key=lambda one: one.metadata.name)
    digest = download_digest(by_name[0])
    marks = {**labels("", DOWNLOAD), DOWNLOAD_LABEL: digest}
    for key in (SERVICE_LABEL, "app.kubernetes.io/instance"):
        del marks[key]
    plain = _pod(by_name, image, pull_policy, environment or {})
    pod = placed(plain, by_name, resources)
    mark = placement_mark(pod, plain)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_with(by_name[0].metadata.name, f"-{DOWNLOAD}-{digest}", JOB_NAME_MAX),
            "namespace": by_name[0].metadata.namespace,
            "labels": marks,
            **({"annotations": mark} if mark else {}),
            "ownerReferences": download_owners(services),
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "template": {"metadata": {"labels": dict(marks)}, "spec": pod},
        },
    }


def _pod(services: Sequence[LLMService], image: str, pull_policy: str, environment: Mapping[str, str]) -> Manifest:
    volume = model_volume(services[0].spec.model.source)
    group = next((one.spec.resources.resource_group for one in services if one.spec.resources.resource_group), "")
    pulls = {secret.name: None for one in services for secret in one.spec.image.pull_secrets}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {**pod_security(), **_fs_group(services)},
        **_near_gpus(services),
        **({"nodeSelector": {RESOURCE_GROUP_LABEL: group}} if group else {}),
        # A node's own disk lies on GPU nodes, which are often tainted.
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        **({"imagePullSecrets": [{"name": name} for name in pulls]} if pulls else {}),
        # Time to give the claim back, so that the next pod begins at once.
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": DOWNLOAD,
                "image": image,
                "imagePullPolicy": pull_policy,
                "command": ["windlass-download"],
                "args": _arguments(services, volume),
                **_environment(services, environment),
                "ports": [{"name": "facts", "containerPort": FACTS_PORT}],
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
                "securityContext": container_security(),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [
                    {"name": VOLUME_NAME, "mountPath": ROOT_PATH},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
                ],
            }
        ],
        "volumes": [{"name": VOLUME_NAME, **_writable(volume.looked_at)}, {"name": "tmp", "emptyDir": {}}],
    }


def _fs_group(services: Sequence[LLMService]) -> Manifest:
    """The volume's group, where a service asks for one; the kubelet leaves a volume alone whose root has it."""
    group = next((one for service in services if (one := _download(service).fs_group)), None)
    return {"fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch"} if group else {}


def _near_gpus(services: Sequence[LLMService]) -> Manifest:
    """A claim's volume that is made for its first pod lies where that pod runs: on a GPU node, if one has room."""
    if services[0].spec.model.source.pvc is None or all(one.spec.resources.gpus == 0 for one in services):
        return {}
    term = {"matchExpressions": [{"key": GPU_LABEL, "operator": "Exists"}]}
    preferred = [{"weight": 1, "preference": term}]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def _arguments(services: Sequence[LLMService], volume: ModelVolume) -> list[str]:
    download = _download(services[0])
    words = ["--root", ROOT_PATH, f"--path={volume.path}", f"--hub={download.hub}"]
    # With an equals sign: a value that begins with a dash is a value.
    words += [f"--name={download.name}"]
    words += [f"--revision={download.revision}"] if download.revision else []
    words += [f"--endpoint={download.endpoint}"] if download.endpoint else []
    words += [f"--include={glob}" for glob in sorted(download.include)]
    words += [f"--exclude={glob}" for glob in sorted(download.exclude)]
    most = max(_download(service).connections for service in services)
    return [*words, f"--connections={most}", f"--facts-port={FACTS_PORT}"]


def _environment(services: Sequence[LLMService], environment: Mapping[str, str]) -> Manifest:
    identity = {"WINDLASS_POD_NAMESPACE": services[0].metadata.namespace} if LOG_FORMAT in environment else {}
    rows: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in sorted({**environment, **identity}.items())
    ]
    secret = next((one for service in services if (one := _download(service).token_secret)), None)
    if secret is not None:
        reference = {"name": secret.name, "key": secret.key}
        rows.append({"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": reference}})
    return {"env": rows} if rows else {}


def _writable(volume: Manifest) -> Manifest:
    """The volume as this one Job may write it."""
    return {
        kind: {key: value for key, value in source.items() if key != "readOnly"} if isinstance(source, dict) else source
        for kind, source in volume.items()
    }


def _download(service: LLMService) -> DownloadSpec:
    download = service.spec.model.download
    if download is None:
        raise ValueError(f"{service.metadata.name} downloads nothing")
    return download
