"""What a change of the spec makes of the objects that are there: more, fewer, none, or a sentence."""

from __future__ import annotations

import json

import httpx2
import pytest
from windlass_operator.errors import NotServedError
from windlass_operator.status import conditions as c

from .test_reconciler import World, a_node

PLAN = "serving.windlass.dev/plan"


def condition(world, type_="Ready"):
    return c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], type_)


def recorded(world):
    return json.loads(world.cluster.one("Service", "qwen")["metadata"]["annotations"][PLAN])


@pytest.fixture
async def world():
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))) as http:
        one = World(http)
        one.cluster.put("Node", a_node())
        yield one


async def test_what_is_wanted_no_longer_is_taken_away(world):
    """An Ingress that is asked for comes, and goes when it is not asked for; the Service stays."""
    await world.planned(expose={"ingress": {"host": "a.example"}})
    assert world.cluster.one("Ingress", "qwen")["spec"]["rules"][0]["host"] == "a.example"
    world.put_service()
    await world.look()
    assert world.cluster.one("Ingress", "qwen") is None
    assert world.cluster.one("Service", "qwen") is not None
    await world.look()
    assert world.cluster.writes == []


async def test_an_ingress_of_somebody_else_is_neither_taken_over_nor_deleted(world):
    """Same name, another owner."""
    world.cluster.put("Ingress", {"kind": "Ingress", "metadata": {"name": "qwen", "uid": "foreign"}, "spec": {}})
    await world.planned()
    assert world.cluster.one("Ingress", "qwen")["metadata"]["uid"] == "foreign"
    world.put_service(expose={"ingress": {"host": "a.example"}})
    await world.look()
    assert condition(world)["reason"] == "NameTaken"
    assert world.cluster.one("Ingress", "qwen")["metadata"]["uid"] == "foreign"


async def test_a_replica_over_two_nodes_replaces_the_deployment(world):
    """A StatefulSet and the Service by which members meet come, the Deployment goes; and back again."""
    world.cluster.put("Node", a_node("n2"))
    await world.planned()
    spread = {"resources": {"gpus": 2}, "deployment": {"mode": "Distributed", "nodes": 2}}
    world.put_service(**spread)
    await world.look()
    assert world.cluster.one("Deployment", "qwen") is None
    assert world.cluster.one("StatefulSet", "qwen-0")["spec"]["replicas"] == 2
    assert world.cluster.one("Service", "qwen-group") is not None
    world.put_service()
    await world.look()
    assert world.cluster.one("StatefulSet", "qwen-0") is None
    assert world.cluster.one("Service", "qwen-group") is None
    assert world.cluster.one("Deployment", "qwen") is not None


async def test_suspend_takes_the_pods_and_keeps_the_plan(world):
    """The Deployment stays with no replicas, and comes back with the same plan."""
    await world.planned()
    before = recorded(world)["plan"]
    world.put_service(suspend=True)
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 0
    assert condition(world)["reason"] == "Suspended"
    world.put_service()
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 1
    assert recorded(world)["plan"] == before


async def test_new_pods_come_first_only_where_there_is_room_for_them(world):
    """The choice is made when the pods change, and stays when the room does."""
    await world.planned()
    assert recorded(world)["rollout"] == "Surge"
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    other = {"metadata": {"name": "other", "namespace": "team-b"}, "status": {"phase": "Running"}}
    world.cluster.put("Pod", {**other, "spec": {"nodeName": "n1", "containers": [limits]}})
    await world.look()
    assert world.cluster.writes == []
    world.put_service(args=["--seed", "1"])
    await world.look()
    rolling = world.cluster.one("Deployment", "qwen")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    assert world.cluster.one("LLMService", "qwen")["status"]["plan"]["rollout"] == "Replace"


async def test_a_node_path_needs_the_installations_leave(world):
    """The sentence names the path and what is allowed; with leave it is inspected."""
    model = {"id": "m", "source": {"hostPath": {"path": "/models/qwen"}}}
    world.put_service(model=model)
    await world.look()
    assert condition(world)["reason"] == "NodePathForbidden"
    assert "/models/qwen" in condition(world)["message"]
    assert world.cluster.all("Job") == []
    world.reconciler = world.another_operator(node_paths=("/models",))
    await world.look()
    assert len(world.cluster.all("Job")) == 1


@pytest.mark.parametrize("path", ["/modelsecrets/x", "/models/../etc", "/", "/models", "/models/"])
async def test_a_neighbour_of_an_allowed_path_is_not_allowed(world, path):
    """Whole directories count, not beginnings of words; nor is the one above mounted, to see a model's neighbours."""
    world.reconciler = world.another_operator(node_paths=("/models",))
    world.put_service(model={"id": "m", "source": {"hostPath": {"path": path}}})
    await world.look()
    assert condition(world)["reason"] in ("NodePathForbidden", "Rejected")
    assert world.cluster.all("Job") == []


async def test_a_privilege_in_the_pod_template_is_refused_and_what_runs_stays(world):
    """One sentence that names the field."""
    await world.planned()
    before = world.cluster.one("Deployment", "qwen")
    world.put_service(podTemplate={"spec": {"hostNetwork": True}})
    await world.look()
    assert condition(world)["reason"] == "Rejected"
    assert "spec.podTemplate.spec.hostNetwork is not allowed" in condition(world)["message"]
    assert world.cluster.one("Deployment", "qwen") == before


async def test_without_the_gateway_api_everything_else_is_served(world):
    """RouteReady says what is missing; the Deployment is there."""
    plain = world.cluster.apply

    async def apply(manifest):
        if manifest["kind"] == "HTTPRoute":
            raise NotServedError("GatewayApiMissing", "the cluster does not know the kind HTTPRoute")
        return await plain(manifest)

    world.cluster.apply = apply
    await world.planned(expose={"gateway": {"parentRefs": [{"name": "public"}]}})
    assert world.cluster.one("Deployment", "qwen") is not None
    assert condition(world, "RouteReady")["reason"] == "GatewayApiMissing"


async def test_a_plan_that_somebody_edited_is_made_anew(world):
    """Whatever was written into it: the pods never follow it."""
    await world.planned()
    before, front = recorded(world), world.cluster.one("Service", "qwen")
    edited = {**before, "plan": {**before["plan"], "gpus": "all"}}
    front["metadata"]["annotations"][PLAN] = json.dumps(edited)
    await world.look()
    assert recorded(world) == before
