"""A service that becomes a group of pods, changes as a whole, and becomes one pod again; against a cluster of dicts."""

from __future__ import annotations

from dataclasses import replace

from .test_reconciler import a_node, world

__all__ = ["world"]

TWO_NODES = {"deployment": {"mode": "Distributed", "nodes": 2}, "resources": {"gpus": 2}}


def play_kubelets(world, revision):
    """Play the StatefulSet's controller and the kubelets: a ready pod for each member, of this revision."""
    (one,) = world.cluster.all("StatefulSet")
    one["status"] = {"updateRevision": revision, "observedGeneration": 0}
    for member in range(one["spec"]["replicas"]):
        name = f"{one['metadata']['name']}-{member}"
        labels = {**one["spec"]["template"]["metadata"]["labels"], "controller-revision-hash": revision}
        owner = {"uid": one["metadata"]["uid"], "controller": True}
        meta = {"name": name, "uid": f"{name}-{revision}", "labels": labels, "ownerReferences": [owner]}
        ready = [{"type": "Ready", "status": "True"}]
        world.cluster.put("Pod", {"metadata": meta, "status": {"phase": "Running", "conditions": ready}})


def kinds(world) -> set[str]:
    found = ("Deployment", "StatefulSet", "NetworkPolicy", "Service")
    return {f"{kind}/{row['metadata']['name']}" for kind in found for row in world.cluster.all(kind)}


async def test_two_nodes_are_a_group_and_one_node_is_a_deployment(world):
    """What the other layout had is taken away, and the Service follows: of a group it finds the head alone."""
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    assert kinds(world) == {"StatefulSet/qwen-0", "NetworkPolicy/qwen-0", "Service/qwen", "Service/qwen-group"}
    heads = {"apps.kubernetes.io/pod-index": "0"}
    assert heads.items() <= world.cluster.one("Service", "qwen")["spec"]["selector"].items()
    world.put_service()
    await world.look()
    await world.look()
    assert kinds(world) == {"Deployment/qwen", "Service/qwen"}
    assert not heads.items() <= world.cluster.one("Service", "qwen")["spec"]["selector"].items()


async def test_a_settled_group_is_left_alone(world):
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    play_kubelets(world, "one")
    await world.look()
    await world.look()
    assert world.cluster.writes == []
    assert world.ready()["reason"] == "Running"


async def test_all_pods_of_a_group_are_replaced_at_once(world):
    """A new template alone changes no pod: `OnDelete`."""
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    play_kubelets(world, "one")
    await world.look()
    world.put_service(**TWO_NODES, args=["--seed", "1"])
    await world.look()
    world.cluster.one("StatefulSet", "qwen-0")["status"] = {"updateRevision": "two", "observedGeneration": 0}
    await world.look()
    assert [write for write in world.cluster.writes if write.startswith("delete")] == [
        "delete Pod/qwen-0-0",
        "delete Pod/qwen-0-1",
    ]


async def test_fewer_replicas_are_fewer_groups(world):
    """And a suspended service has none."""
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES, replicas=2)
    assert {"StatefulSet/qwen-0", "StatefulSet/qwen-1", "NetworkPolicy/qwen-1"} <= kinds(world)
    world.put_service(**TWO_NODES, replicas=1)
    await world.look()
    assert not {"StatefulSet/qwen-1", "NetworkPolicy/qwen-1"} & kinds(world)
    world.put_service(**TWO_NODES, suspend=True)
    await world.look()
    assert not any(name.startswith("StatefulSet") for name in kinds(world))


async def test_an_installation_without_policies_takes_them_away(world):
    """The operator's own setting; what serves goes on."""
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    world.reconciler._settings = replace(world.reconciler._settings, group_network_policy=False)
    world.cluster.writes.clear()
    await world.look()
    assert world.cluster.writes == ["delete NetworkPolicy/qwen-0"]
    assert "StatefulSet/qwen-0" in kinds(world)
