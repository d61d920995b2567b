"""The Job that looks at the model's directory before any GPU is taken, in the operator's own image."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.names import INSPECT

from windlass_operator.manifests.job_placement import placed, placement_mark
from windlass_operator.manifests.metadata import (
    JOB_NAME_MAX,
    Manifest,
    container_security,
    labels,
    name_with,
    object_meta,
    pod_security,
)
from windlass_operator.manifests.sources import inspected_mounts, inspected_rows, volumes
from windlass_operator.manifests.volume import ROOT_PATH, model_volume

DEADLINE_S = 3600  # with the time that pulls and mounts take; the program itself gives up far earlier
RESOURCE_GROUP_LABEL = "serving.windlass.dev/resource-group"


def inspect_job(
    service: LLMService,
    image: str,
    pull_policy: str,
    environment: Mapping[str, str] | None = None,
    resources: Mapping[str, Any] | None = None,
) -> Manifest:
    """The Job; its name holds a hash of all that it looks at and with, so a change of these is a new Job.

    Its nodes and what it asks of them are not in the name: they change nothing that it finds. `environment` says how it
    logs, `resources` are the requests and limits that the installation gives.
    """
    pod = _pod(service, image, pull_policy)
    if environment:
        pod["containers"][0]["env"] = _environment(service, environment)
    filled = _filled_with(service)
    digest = hashlib.sha256(json.dumps([pod, filled] if filled else pod, sort_keys=True).encode()).hexdigest()[:8]
    name = name_with(service.metadata.name, f"-{INSPECT}-{digest}", JOB_NAME_MAX)
    on_its_nodes = placed(pod, [service], resources)
    mark = placement_mark(on_its_nodes, pod)
    meta = object_meta(service, name, INSPECT)
    template_meta = {"labels": labels(service.metadata.name, INSPECT)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta, **({"annotations": mark} if mark else {})},
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": DEADLINE_S,
            "template": {"metadata": template_meta, "spec": on_its_nodes},
        },
    }


def _environment(service: LLMService, environment: Mapping[str, str]) -> list[Manifest]:
    """How the Job logs, and of which service."""
    meta = service.metadata
    identity = {"WINDLASS_SERVICE": meta.name, "WINDLASS_POD_NAMESPACE": meta.namespace}
    return [{"name": name, "value": value} for name, value in sorted({**environment, **identity}.items())]


def _filled_with(service: LLMService) -> Manifest | None:
    """What a download puts there: when another one is asked for, the directory is looked at again."""
    download = service.spec.model.download
    return download.model_dump(mode="json", exclude={"connections", "token_secret", "fs_group"}) if download else None


def _pod(service: LLMService, image: str, pull_policy: str) -> Manifest:
    volume = model_volume(service.spec.model.source)
    mounts = inspected_mounts(service)
    group = service.spec.resources.resource_group
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        **({"nodeSelector": {RESOURCE_GROUP_LABEL: group}} if group else {}),
        # Models on a node's own disk lie on GPU nodes, which are often tainted.
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        **_pull_secrets(service),
        "containers": [
            {
                "name": "inspect",
                "image": image,
                "imagePullPolicy": pull_policy,
                # With an equals sign: a value that begins with a dash is a value.
                "args": [
                    *("inspect", "--root", ROOT_PATH, f"--path={volume.path}", f"--source={volume.label}"),
                    *_beside(service),
                ],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
                "securityContext": container_security(),
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [one.to_mount() for one in mounts],
            }
        ],
        "volumes": volumes(mounts),
    }


def _beside(service: LLMService) -> list[str]:
    """Base, adapters and draft model, where there are any; a service without them keeps its Job's name."""
    rows = inspected_rows(service)
    merge = ["--merge"] if service.spec.model.merge else []
    return [*([f"--beside={json.dumps(rows)}"] if rows else []), *merge]


def _pull_secrets(service: LLMService) -> Manifest:
    names = [{"name": secret.name} for secret in service.spec.image.pull_secrets]
    return {"imagePullSecrets": names} if names else {}
