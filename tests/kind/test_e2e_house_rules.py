"""Clusters with rules of their own: a namespace whose pods get one container more, and nodes with a taint.

Inspect and download Jobs end there and the service answers, or its condition says in one sentence why not.
"""

import json
import sys
from pathlib import Path

import pytest
from windlass_testbed import cluster

sys.path.insert(0, str(Path(__file__).parent))

import hub_pod
import injector

TAINT = "windlass-test-team=gpu:NoSchedule"
TOLERATION = {"key": "windlass-test-team", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
JOBS = ("inspect", "download")
FREE = {"license": {"required": False}, "engine": {"maxModelLen": 512}}


@pytest.fixture(scope="module")
def hub(bed, namespace):
    hub_pod.start(bed.paths, namespace, bed.images["operator"])
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{hub_pod.NAME}", "--timeout=600s")
    return {"hub": "huggingface", "name": hub_pod.MODEL, "endpoint": hub_pod.endpoint(namespace)}


@pytest.fixture
def injecting(bed, namespace, hub, tmp_path):
    try:
        injector.start(bed, namespace, tmp_path)
        yield
    finally:
        injector.stop(bed, namespace)


@pytest.fixture
def tainted(bed, namespace, hub):
    """All nodes that have GPUs; pods that run stay, those of the fixtures among them."""
    try:
        bed.kubectl("taint", "node", *cluster.WORKERS, TAINT)
        yield
    finally:
        bed.kubectl("taint", "node", *cluster.WORKERS, f"{TAINT}-")


def filled(bed, hub, name):
    """The model that a download brings into a directory of its own."""
    hub_pod.target(bed.paths, name)
    return {"id": "demo", "source": {"pvc": {"claimName": "models", "path": name}}, "download": hub}


def jobs_of(bed, namespace, name):
    """The Jobs of the service with the state of their pods."""
    pods = bed.items(namespace, "pods", "-l", "batch.kubernetes.io/job-name")
    return {
        job["metadata"]["name"]: [
            pod for pod in pods if pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job["metadata"]["name"]
        ]
        for job in bed.items(namespace, "jobs")
        if job["metadata"]["name"].startswith(f"{name}-")
    }


def beginning(pod):
    """The service and which of its Jobs the pod is of."""
    return "-".join(pod["metadata"]["name"].split("-")[:2])


def containers(pod):
    return [row["name"] for kind in ("initContainers", "containers") for row in pod["spec"].get(kind, ())]


def test_an_injected_container_holds_up_neither_job_nor_service(bed, namespace, injecting, hub):
    """A native sidecar ends with its Job; one that never ends is ended by the Job once its finding is kept."""
    names, injected = (injector.NATIVE, "classic"), set()
    expected = {f"{name}-{job}" for name in names for job in JOBS}

    def answer():
        pods = [pod for name in names for of_job in jobs_of(bed, namespace, name).values() for pod in of_job]
        injected.update(beginning(pod) for pod in pods if injector.INJECTED in containers(pod))
        return all(bed.condition(namespace, name, "Ready").get("status") == "True" for name in names)

    for name in names:
        bed.apply(namespace, name, model=filled(bed, hub, f"filled-{name}"), **FREE)
    bed.wait("both services answer", answer)
    assert injected == expected
    assert [bed.condition(namespace, name, "Downloading")["reason"] for name in names] == ["Downloaded"] * 2
    before = {name: jobs_of(bed, namespace, name).keys() for name in names}

    def over():
        after = {name: jobs_of(bed, namespace, name) for name in names}
        pods = [pod for jobs in after.values() for of_job in jobs.values() for pod in of_job]
        assert {name: jobs.keys() for name, jobs in after.items()} == before  # none is made anew
        return not [pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")]

    bed.wait("no pod of the Jobs runs", over)
    bed.kubectl("-n", namespace, "delete", "llm", *names, "--timeout=600s")


def test_tainted_nodes_are_named_and_a_toleration_brings_every_pod_there(bed, namespace, tainted, hub):
    """Without the toleration one sentence says what is missing; with it download, inspection and pod run there."""
    model = filled(bed, hub, "filled-tainted")
    bed.apply(namespace, "tainted", model=model, **FREE)
    ready = bed.reason(namespace, "tainted", "UntoleratedTaint")
    assert "had untolerated taint" in ready["message"]
    assert ready["message"].endswith("; add spec.scheduling.tolerations; see kubectl describe nodes")
    bed.apply(namespace, "tainted", model=model, scheduling={"tolerations": [TOLERATION]}, **FREE)
    bed.ready(namespace, "tainted")
    pods = bed.items(namespace, "pods", "-l", "serving.windlass.dev/service=tainted,app.kubernetes.io/component=server")
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(cluster.WORKERS)
    found = jobs_of(bed, namespace, "tainted")
    assert json.dumps(list(found.values())).count('"windlass-test-team"') >= len(found) == 2
    bed.kubectl("-n", namespace, "delete", "llm", "tainted", "--timeout=600s")
