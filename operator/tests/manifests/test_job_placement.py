"""The Jobs of a service run on the nodes that its serving pods may use, and one that nothing places is as it was."""

from __future__ import annotations

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.nodes import REQUIRED
from windlass_operator.manifests.download_job import download_job
from windlass_operator.manifests.inspect_job import inspect_job
from windlass_operator.manifests.job_placement import PLACED_ANNOTATION, is_placed_as

IMAGE = "windlass/operator:1"
GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists"}
DEDICATED = {"key": "dedicated", "value": "inference", "effect": "NoSchedule"}
SPOT = {"key": "spot", "operator": "Exists"}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
MAKERS = {"inspect": inspect_job, "download": lambda one, *rest: download_job([one], *rest)}
a_job = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def a_service(name="demo", **spec) -> LLMService:
    source = {"pvc": {"claimName": "models", "path": "demo"}}
    model = {"id": "demo", "source": source, "download": {"hub": "huggingface", "name": "owner/name"}}
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    return LLMService.model_validate({"metadata": meta, "spec": {"model": model, **spec}})


def pod_of(job):
    return job["spec"]["template"]["spec"]


@a_job
def test_a_job_bears_the_taints_and_follows_the_selectors_of_the_spec(make):
    scheduling = {"nodeSelector": {"pool": "inference"}, "tolerations": [DEDICATED]}
    pod = pod_of(make(a_service(scheduling=scheduling), IMAGE, "Never"))
    assert pod["nodeSelector"] == {"pool": "inference"}
    assert pod["tolerations"] == [GPU_TAINT, DEDICATED]


@a_job
def test_a_job_follows_the_pod_template_too(make):
    """Its label wins over the same one of spec.scheduling, as in serving pods; neighbours concern no Job."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    affinity = {"nodeAffinity": {REQUIRED: TERMS}, "podAffinity": {REQUIRED: [near]}}
    piece = {"nodeSelector": {"pool": "b"}, "tolerations": [SPOT, GPU_TAINT], "affinity": affinity}
    scheduling = {"nodeSelector": {"pool": "a", "disk": "fast"}, "tolerations": [DEDICATED, SPOT]}
    resources = {"resourceGroup": "team"}
    spec = {"scheduling": scheduling, "podTemplate": {"spec": piece}, "resources": resources}
    pod = pod_of(make(a_service(**spec), IMAGE, "Never"))
    assert pod["nodeSelector"] == {"pool": "b", "disk": "fast", "serving.windlass.dev/resource-group": "team"}
    assert pod["tolerations"] == [GPU_TAINT, DEDICATED, SPOT]
    assert pod["affinity"]["nodeAffinity"][REQUIRED] == TERMS
    assert "podAffinity" not in pod["affinity"]


@a_job
def test_a_job_has_the_requests_and_limits_of_the_installation(make):
    own, given = make(a_service(), IMAGE, "Never"), make(a_service(), IMAGE, "Never", None, RESOURCES)
    assert pod_of(given)["containers"][0]["resources"] == RESOURCES
    assert pod_of(own)["containers"][0]["resources"]["limits"].keys() == {"memory"}
    assert own["metadata"]["name"] == given["metadata"]["name"]


@a_job
def test_the_placement_changes_no_name_and_marks_the_job(make):
    """The Job of an earlier operator is found by its name; its missing mark says that nothing places it."""
    plain = make(a_service(), IMAGE, "Never")
    one = make(a_service(scheduling={"tolerations": [DEDICATED]}), IMAGE, "Never")
    other = make(a_service(scheduling={"tolerations": [SPOT]}), IMAGE, "Never")
    assert plain["metadata"]["name"] == one["metadata"]["name"] == other["metadata"]["name"]
    assert "annotations" not in plain["metadata"]
    assert is_placed_as({}, plain)
    assert not is_placed_as({}, one)
    assert is_placed_as(one["metadata"]["annotations"], one)
    assert not is_placed_as(one["metadata"]["annotations"], other)
    assert list(one["metadata"]["annotations"]) == [PLACED_ANNOTATION]


def test_services_that_share_a_job_are_all_borne():
    """The first by name that limits the nodes decides; the preference for GPU nodes stays."""
    services = [
        a_service("c", scheduling={"nodeSelector": {"pool": "c"}, "tolerations": [SPOT]}),
        a_service("b", podTemplate={"spec": {"affinity": {"nodeAffinity": {REQUIRED: TERMS}}}}),
        a_service("a", scheduling={"tolerations": [DEDICATED, SPOT]}),
    ]
    pod = pod_of(download_job(services, IMAGE, "Never"))
    assert pod["tolerations"] == [GPU_TAINT, DEDICATED, SPOT]
    assert "nodeSelector" not in pod
    assert pod["affinity"]["nodeAffinity"].keys() == {REQUIRED, "preferredDuringSchedulingIgnoredDuringExecution"}
