"""Pod Security on a real API server: every pod that the operator makes passes the strictest level its source allows."""

from __future__ import annotations

import json

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.download_job import download_job
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.pod import PodShape, pod_template

pytestmark = pytest.mark.apiserver

LEVELS = ("restricted", "baseline", "privileged")
SHAPE = PodShape("windlass/server:1", ("run",), "1", "4Gi", "1Gi", command=("windlass",), gpus=1)
DOWNLOAD = {"hub": "modelscope", "name": "qwen/Qwen2-0.5B", "tokenSecret": {"name": "hub", "key": "token"}}
EXTRAS = {
    "expose": {"apiKeysSecretRef": {"name": "keys"}},
    "cache": {"sizeLimit": "9Gi"},
    "podTemplate": {
        "spec": {
            "containers": [{"name": "watcher", "image": "watcher:1"}],
            "initContainers": [{"name": "first", "image": "first:1"}],
            "volumes": [{"name": "more", "configMap": {"name": "more"}}],
        }
    },
}
# The source, and the levels that its pods must pass; the next stricter one must refuse them, or the row is too meek.
SOURCES = {
    "pvc": ({"pvc": {"claimName": "models", "path": "qwen"}}, ("restricted", "baseline", "privileged")),
    "cfs": ({"cfs": {"server": "10.0.0.12", "path": "/models/qwen"}}, ("baseline", "privileged")),
    "nfs": ({"nfs": {"server": "10.0.0.12", "path": "/models/qwen"}}, ("baseline", "privileged")),
    "hostPath": ({"hostPath": {"path": "/models/qwen"}}, ("privileged",)),
    "gooseFSx": ({"gooseFSx": {"mountPath": "/goosefsx/x", "path": "qwen"}}, ("privileged",)),
}


def pods_of(source: dict) -> dict[str, dict]:
    """Every pod that a service with this source makes, by what it does."""
    spec = {"model": {"id": "m", "source": source, "download": DOWNLOAD}, **EXTRAS}
    service = LLMService.model_validate({"metadata": {"name": "qwen", "namespace": "a", "uid": "u"}, "spec": spec})
    group = [item for item in group_objects(service, GroupShape(SHAPE, 2, "Ray"), 1) if item["kind"] == "StatefulSet"]
    jobs = [
        inspect_job(service, "windlass/operator:1", "Never"),
        download_job([service], "windlass/operator:1", "Never"),
    ]
    templates = {
        "serves": pod_template(service, SHAPE),
        "serves in a group": group[0]["spec"]["template"],
        "inspects": jobs[0]["spec"]["template"],
        "downloads": jobs[1]["spec"]["template"],
    }
    return {what: _pod(template) for what, template in templates.items()}


def _pod(template: dict) -> dict:
    meta = {"name": "x", **template["metadata"]}
    named = {"serviceAccountName": "default", **template["spec"]}  # as the plug-in ServiceAccount does, which is off
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": named}


@pytest.fixture(scope="module")
def levels(apiserver) -> dict[str, str]:
    """A namespace for each level, which enforces it."""
    for level in LEVELS:
        meta = {"name": f"security-{level}", "labels": {"pod-security.kubernetes.io/enforce": level}}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    return {level: f"security-{level}" for level in LEVELS}


@pytest.mark.parametrize(("source", "allowed"), SOURCES.values(), ids=SOURCES.keys())
def test_pods_pass_the_strictest_level_that_their_source_allows(apiserver, levels, source, allowed):
    """Admitted there and on every looser level, refused by PodSecurity on a stricter one."""
    for what, pod in pods_of(source).items():
        for level in LEVELS:
            done = apiserver.apply(pod, "-n", levels[level], "--dry-run=server")
            if level in allowed:
                assert done.returncode == 0, f"{what} on {level}: {done.stderr}"
            else:
                assert done.returncode != 0, f"{what} on {level} was let in"
                assert "violates PodSecurity" in done.stderr
