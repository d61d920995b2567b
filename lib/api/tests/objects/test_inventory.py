"""The cluster's GPUs: nodes that take pods, less what other pods request."""

from __future__ import annotations

import pytest
from windlass_api.objects.claims import Claims
from windlass_api.objects.inventory import gpu_signature, inventory, usable


def a_node(name="n1", gpus="4", ready="True", **labels):
    return {
        "metadata": {
            "name": name,
            "labels": {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068", **labels},
        },
        "status": {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def a_pod(gpus, node="n1", phase="Running"):
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {"spec": {"nodeName": node, "containers": [{"resources": limits}, {}]}, "status": {"phase": phase}}


def taken(*pods):
    claims = Claims()
    for number, pod in enumerate(pods):
        claims.put({"metadata": {"name": f"p{number}", "namespace": "a"}, **pod})
    return claims.taken()


def test_free_is_what_no_pod_requests():
    pods = taken(a_pod(1), a_pod(2), a_pod(1, "n2"), a_pod(1, phase="Succeeded"))
    (node,) = inventory(usable([a_node()]), pods).nodes
    assert (node.node, node.product, node.allocatable, node.free) == ("n1", "NVIDIA-L20", 4, 1)
    assert round(node.memory_gib, 2) == 44.99


def test_nodes_that_take_no_pods_are_left_out():
    cordoned = a_node("n3") | {"spec": {"unschedulable": True}}
    nodes = usable([a_node(), a_node("n2", ready="False"), cordoned, a_node("n4", gpus="0")])
    assert [node.node for node in nodes] == ["n1"]


def test_a_shared_card_counts_once():
    """Time slicing hands out one card several times; a replica's ranks need cards of their own."""
    seen = lambda count: usable([a_node(**{"nvidia.com/gpu.count": count})])[0].allocatable  # noqa: E731
    assert [seen(count) for count in ("1", "4", "8", "0", "", "two")] == [1, 4, 4, 4, 4, 4]


def test_memory_without_a_label_is_unknown():
    (node,) = usable([a_node(**{"nvidia.com/gpu.memory": ""})])
    assert node.memory_gib is None


@pytest.mark.parametrize(
    ("memory", "each"),
    [("512Gi", 128), ("1073741824", 0.25), (None, 0), ("", 0), ("lots", 0), ("-4Gi", 0), ({}, 0)],
)
def test_host_memory_is_a_share_for_each_card_handed_out(memory, each):
    """What a node says otherwise than Kubernetes spells it counts as nothing."""
    node = a_node()
    node["status"]["allocatable"]["memory"] = memory
    assert [one.host_gib for one in usable([node])] == [each]


def test_host_memory_is_shared_by_all_that_share_a_card():
    """Eight pods on four cards have an eighth of it each; the node as a whole has all."""
    node = a_node(gpus="8", **{"nvidia.com/gpu.count": "4"})
    node["status"]["allocatable"]["memory"] = "512Gi"
    assert [(one.allocatable, one.host_gib, one.node_gib) for one in usable([node])] == [(4, 64, 512)]


def test_a_heartbeat_changes_nothing():
    beat = a_node()
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "later"
    assert gpu_signature(beat) == gpu_signature(a_node())
    assert gpu_signature(a_node(gpus="5")) != gpu_signature(a_node())
    larger = a_node()
    larger["status"]["allocatable"]["memory"] = "512Gi"
    assert gpu_signature(larger) != gpu_signature(a_node())


MIXED = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    "nvidia.com/gpu.memory": "81920",
    "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    "nvidia.com/mig-1g.10gb.memory": "9728",
    "nvidia.com/mig-1g.10gb.count": "7",
}


def a_mixed_node():
    """Two whole cards, seven slices of one kind, and one of a kind that no label tells of."""
    node = a_node(gpus="2", **MIXED)
    node["status"]["allocatable"] |= {"nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "1"}
    return node


def test_slices_are_cards_of_their_own():
    """With the device plugin's strategy `mixed` each kind of slice is a resource, with labels of its own."""
    whole, small, large = usable([a_mixed_node()])
    assert (whole.resource, whole.product, whole.memory_gib, whole.free) == (
        *("nvidia.com/gpu", "NVIDIA-A100-SXM4-80GB", 80.0, 2),
    )
    assert (small.resource, small.product, small.memory_gib, small.free) == (
        *("nvidia.com/mig-1g.10gb", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9.5, 7),
    )
    assert (large.resource, large.product, large.memory_gib, large.known_as) == (
        *("nvidia.com/mig-3g.40gb", "", None, "nvidia.com/mig-3g.40gb"),
    )


def test_what_is_held_of_slices_leaves_whole_cards_free():
    """A pod's claim counts against the resource that it asks for, on its node."""
    held = {"nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu": "1", "cpu": "4"}
    pod = {"spec": {"nodeName": "n1", "containers": [{"resources": {"limits": held}}]}, "status": {"phase": "Running"}}
    assert [node.free for node in inventory(usable([a_mixed_node()]), taken(pod)).nodes] == [1, 5, 1]


def test_a_change_of_slices_changes_the_signature():
    """A node whose cards are cut anew is planned with anew."""
    cut = a_mixed_node()
    cut["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "6"
    assert gpu_signature(cut) != gpu_signature(a_mixed_node())
