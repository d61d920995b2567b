"""Runs that leave a state as it is: shares of prompts that drift, and objects of one service that cannot be read."""

from __future__ import annotations

import httpx2
import msgspec
import pytest
from windlass_api.names import SERVICE_LABEL
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.status import conditions as c

from .test_reconciler import World, a_node, a_service, world

__all__ = ["world"]

BROKEN = Key("team-a", "broken")


def a_running_pod(world, address="10.0.0.1"):
    """Of the Deployment, by the ReplicaSet that its controller would make."""
    uid = world.cluster.one("Deployment", "qwen")["metadata"]["uid"]
    owner = lambda of: [{"uid": of, "controller": True}]  # noqa: E731
    template = world.cluster.one("Deployment", "qwen")["spec"]["template"]
    labels = template["metadata"]["labels"]
    sets = {"name": "qwen-1", "uid": "rs", "labels": labels, "ownerReferences": owner(uid)}
    world.cluster.put("ReplicaSet", {"metadata": sets})
    meta = {"name": "qwen-0", "uid": "p", "labels": labels, "ownerReferences": owner("rs")}
    status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}
    world.cluster.put("Pod", {"metadata": meta, "status": status})


def a_world_that_tells(percents):
    """A world whose pod has found that many of 100 tokens on the GPU, as the list says at the time."""
    facts = lambda: {"version": 1, "prefixCache": {"promptTokens": 100, "gpuTokens": percents[-1], "hostTokens": 0}}  # noqa: E731
    return httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=facts())))


def shown(world):
    return world.cluster.one("LLMService", "qwen")["status"]["prefixCache"]["gpuPercent"]


async def test_shares_of_prompts_that_drift_are_no_write():
    """The second run of a settled service writes nothing, though its pod counts another percent."""
    percents = [20]
    async with a_world_that_tells(percents) as http:
        world = World(http)
        world.cluster.put("Node", a_node())
        await world.planned(engine={"maxModelLen": 2048, "prefixOffload": {"enabled": True, "memory": "2Gi"}})
        a_running_pod(world)
        world.serve()
        await world.look()
        assert (world.ready()["reason"], shown(world)) == ("Running", 20)
        percents.append(21)
        assert await world.look() == 300
        assert (world.cluster.writes, shown(world)) == ([], 20)
        percents.append(22)
        await world.look()
        assert (world.cluster.writes, shown(world)) == (["status"], 22)


async def test_an_object_that_cannot_be_read_costs_its_own_service_alone(world):
    """No API server sends such a pod; the other service is brought to Running while it is there."""
    world.cluster.put("Node", a_node())
    broken = a_service()
    broken["metadata"] |= {"name": "broken", "uid": "u-2"}
    world.cluster.put("LLMService", broken)
    labels = {SERVICE_LABEL: "broken"}
    world.cluster.put("Pod", {"metadata": {"name": "broken-0", "labels": labels}, "status": {"podIP": 7}})
    with pytest.raises(msgspec.ValidationError) as wrong:
        await world.reconciler.reconcile(BROKEN)
    await world.reconciler.failed(BROKEN, wrong.value)
    row = c.find(world.cluster.one("LLMService", "broken")["status"]["conditions"], c.PROGRESSING)
    assert (row["reason"], "podIP" in row["message"]) == ("InternalError", True)
    await world.planned()
    a_running_pod(world)
    world.serve()
    await world.look()
    assert world.ready()["reason"] == "Running"
