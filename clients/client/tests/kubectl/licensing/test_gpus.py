"""Which GPUs are free and who holds the others; the Job that names the free ones, and what keeps it."""

from __future__ import annotations

import pytest
from windlass_kubectl.licensing.gpus import (
    GpuNode,
    Holder,
    JobShape,
    gpu_nodes,
    job,
    job_name,
    uuids,
    why_not_yet,
)

READY = [{"type": "Ready", "status": "True"}]
SLICE = "nvidia.com/mig-1g.10gb"


def a_node(name="a", ready="True", **gpus):
    allocatable = {"cpu": "64", **{resource: str(count) for resource, count in gpus.items()}}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


def a_pod(node="a", name="p", phase="Running", **gpus):
    limits = {"memory": "1Gi", **{resource: str(count) for resource, count in gpus.items()}}
    containers = [{"name": "side"}, {"name": "main", "resources": {"limits": limits}}]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": phase},
    }


def test_a_node_s_free_gpus_are_those_that_no_pod_holds():
    """Pods that have ended hold nothing; nodes without GPUs are left out; slices are counted by their own resource."""
    nodes = [a_node("b", **{"nvidia.com/gpu": 8, SLICE: 2}), a_node("plain"), a_node("a", **{"nvidia.com/gpu": 2})]
    pods = [
        a_pod("b", "one", **{"nvidia.com/gpu": 3}),
        a_pod("b", "two", **{SLICE: 2}),
        a_pod("b", "done", phase="Succeeded", **{"nvidia.com/gpu": 5}),
        a_pod("b", "no-gpu"),
        a_pod("", "pending", phase="Pending", **{"nvidia.com/gpu": 1}),
    ]
    first, second = gpu_nodes(nodes, pods)
    assert first == GpuNode("a", True, 2, {"nvidia.com/gpu": 2})
    holders = (Holder("team", "one", "main", True), Holder("team", "two", "main", True))
    assert second == GpuNode("b", True, 10, {"nvidia.com/gpu": 5}, holders)


def test_a_pod_that_an_earlier_run_left_behind_holds_nothing():
    """Its GPUs come free by themselves; it could not be asked any more."""
    left = a_pod(phase="Pending", **{"nvidia.com/gpu": 2})
    left["metadata"]["labels"] = job(GpuNode("a", True, 2, {}), JobShape("n", "i"))["metadata"]["labels"]
    (node,) = gpu_nodes([a_node(**{"nvidia.com/gpu": 2})], [left])
    assert (node.free, node.holders) == ({"nvidia.com/gpu": 2}, ())


def test_a_node_that_is_not_ready_and_a_pod_that_does_not_run_yet_are_seen_as_such():
    (node,) = gpu_nodes(
        [a_node(ready="Unknown", **{"nvidia.com/gpu": 1})], [a_pod(phase="Pending", **{"nvidia.com/gpu": 1})]
    )
    assert (node.ready, node.free, node.holders[0].running) == (False, {}, False)


def test_a_job_takes_the_free_gpus_of_one_node_and_nothing_else():
    """Whatever the node's taints and labels, and under the restricted Pod Security Standard."""
    node = GpuNode("gpu-1.example", True, 8, {"nvidia.com/gpu": 3, SLICE: 1})
    made = job(node, JobShape("kube-system", "r/windlass/license-server:1", "Never", ("pull",), "nvidia"))
    assert made["metadata"]["name"] == job_name("gpu-1.example") != job_name("gpu-2.example")
    assert len(made["metadata"]["name"]) <= 63
    pod = made["spec"]["template"]["spec"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["gpu-1.example"]}]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert (pod["runtimeClassName"], pod["imagePullSecrets"]) == ("nvidia", [{"name": "pull"}])
    assert (pod["automountServiceAccountToken"], pod["securityContext"]["runAsNonRoot"]) == (False, True)
    (container,) = pod["containers"]
    assert (container["command"], container["imagePullPolicy"]) == (["nvidia-smi", "-L"], "Never")
    gpus = {name: count for name, count in container["resources"]["limits"].items() if name != "memory"}
    assert gpus == {"nvidia.com/gpu": "3", SLICE: "1"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    bare = job(node, JobShape("kube-system", "i"))["spec"]["template"]["spec"]
    assert not {"runtimeClassName", "imagePullSecrets"} & bare.keys()


def test_names_in_a_listing():
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a-1)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-b)\n"
        "GPU 1: NVIDIA L20 (UUID: GPU-c)\n"
    )
    assert uuids(listing) == {"GPU-a-1", "GPU-c"}
    assert uuids("No devices were found\n") == frozenset()


def a_state(phase, kind, **why):
    return {"phase": phase, "containerStatuses": [{"state": {kind: why}}]}


NO_ROOM = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes: 1 Insufficient nvidia.com/gpu"}
WAITING: dict[str, tuple[dict, str, bool]] = {
    "no room": ({"phase": "Pending", "conditions": [NO_ROOM]}, "Insufficient nvidia.com/gpu", False),
    "an image that is not there": (
        a_state("Pending", "waiting", reason="ImagePullBackOff", message="not found"),
        "ImagePullBackOff: not found",
        True,
    ),
    "an image without nvidia-smi": (
        a_state("Failed", "terminated", reason="StartError", message="nvidia-smi: executable file not found"),
        "executable file not found",
        True,
    ),
    "being made": (a_state("Pending", "waiting", reason="ContainerCreating"), "Pending", False),
}


@pytest.mark.parametrize(("status", "said", "hopeless"), WAITING.values(), ids=WAITING)
def test_what_keeps_a_pod(status, said, hopeless):
    """What heals by itself is waited for; an image that is wrong is told at once."""
    why, seen = why_not_yet({"metadata": {"name": "p"}, "status": status})
    assert (said in why, seen) == (True, hopeless)
