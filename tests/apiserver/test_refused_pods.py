"""Pods that a real API server refuses: its words have their reason, and the remedy of a LimitRange's default works."""

from __future__ import annotations

import json

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.download_job import download_job
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.pod import PodShape, pod_template
from windlass_operator.status.admission import refused

pytestmark = pytest.mark.apiserver

IMAGE = "windlass/operator:1"
SHAPE = PodShape("windlass/server:1", ("run",), "1", "4Gi", "1Gi", command=("windlass",))
RANGES = {
    "default limits below the requests": {"default": {"cpu": "500m", "memory": "512Mi"}},
    "max": {"max": {"memory": "1Gi"}},
    "min": {"min": {"memory": "64Gi"}},
    "ratio": {"maxLimitRequestRatio": {"cpu": "2"}, "default": {"cpu": "64"}},
}
RAISED = {
    "containers": [{"name": "server", "resources": {"limits": {"cpu": "2", "memory": "8Gi"}}}],
}


def a_service(name: str = "qwen", **spec: object) -> LLMService:
    model = {"id": "m", "source": {"pvc": {"claimName": "models"}}, "download": {"hub": "huggingface", "name": "o/n"}}
    meta = {"name": name, "namespace": "a", "uid": "u"}
    return LLMService.model_validate({"metadata": meta, "spec": {"model": model, **spec}})


def answer(apiserver, namespace: str, template: dict) -> str:
    """The API server's refusal of a pod of this template; empty when it takes it."""
    named = {"serviceAccountName": "default", **template["spec"]}  # as the plug-in ServiceAccount does, which is off
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **template["metadata"]}, "spec": named}
    done = apiserver.kubectl(
        "create", "--dry-run=server", "-n", namespace, "-f", "-", stdin=json.dumps(pod), check=False
    )
    return done.stderr if done.returncode else ""


def limit(apiserver, namespace: str, **item: object) -> None:
    spec = {"limits": [{"type": "Container", **item}]}
    row = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "team", "namespace": namespace}, "spec": spec}
    assert apiserver.apply(row).returncode == 0


@pytest.mark.parametrize("item", RANGES.values(), ids=RANGES.keys())
def test_a_limit_ranges_words_have_their_reason(apiserver, namespace, item):
    limit(apiserver, namespace, **item)
    words = answer(apiserver, namespace, pod_template(a_service(), SHAPE))
    assert refused(words).reason == "LimitRangeExceeded", words


def test_limits_of_the_pod_template_are_a_remedy_for_a_default(apiserver, namespace):
    """The service's own limits stand in the place of the range's."""
    limit(apiserver, namespace, **RANGES["default limits below the requests"])
    assert answer(apiserver, namespace, pod_template(a_service(podTemplate={"spec": RAISED}), SHAPE)) == ""


JOBS = pytest.mark.parametrize(
    "job", [inspect_job, lambda one, *rest: download_job([one], *rest)], ids=["inspect", "download"]
)


@JOBS
def test_the_longest_name_of_a_service_gives_jobs_that_are_taken(apiserver, namespace, job):
    """A Job's name is a label of its pods, which the API server limits to 63 characters."""
    manifest = job(a_service("a" * 50), IMAGE, "Never")
    manifest["metadata"]["namespace"] = namespace
    made = apiserver.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert made.returncode == 0, made.stderr


@JOBS
def test_a_quota_of_limits_takes_the_jobs_that_the_chart_gives_limits(apiserver, namespace, job):
    """Its refusal names what lacks; with limits from the chart the Job's pod is let in."""
    hard = {"limits.cpu": "64", "limits.memory": "512Gi", "requests.cpu": "64", "requests.memory": "512Gi"}
    spec = {"spec": {"hard": hard}, "status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    meta = {"name": "team", "namespace": namespace}
    assert apiserver.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, **spec}).returncode == 0
    status = json.dumps({"status": spec["status"]})
    apiserver.kubectl(
        *("patch", "resourcequota", "team", "-n", namespace, "--subresource=status", "--type=merge", "-p", status)
    )
    words = answer(apiserver, namespace, job(a_service(), IMAGE, "Never")["spec"]["template"])
    assert "must specify limits.cpu" in words
    assert refused(words).reason == "QuotaExceeded"
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    assert answer(apiserver, namespace, job(a_service(), IMAGE, "Never", None, resources)["spec"]["template"]) == ""
