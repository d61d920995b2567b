"""What the API server refuses of one object: the others are still written, and the status tells the present."""

from __future__ import annotations

import pytest
from windlass_operator.cluster.decode import stub
from windlass_operator.errors import UserError
from windlass_operator.status import conditions as c

from .test_groups import TWO_NODES, play_kubelets
from .test_reconciler import BAD, KEY, a_node, world

__all__ = ["world"]

WAY_IN = {"ingress": {"host": "llm.example.com"}}
BROKEN = {"model": {"id": "m", "source": {"hostPath": {"path": "/etc"}}}}
NOWHERE = {"model": {"id": "m", "source": {"pvc": {"claimName": "models", "path": "nope"}}}}


def refuse(world, verb, kind):
    """The API server refuses this verb of this kind from now on."""
    does = getattr(world.cluster, verb)

    async def refusing(what, *rest):
        name = what["kind"] if isinstance(what, dict) else what.kind
        if name == kind:
            raise UserError("Rejected", f"the API server refuses {kind} qwen: a webhook denied it")
        return await does(what, *rest)

    setattr(world.cluster, verb, refusing)


def condition(world, type_):
    return c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], type_)


async def served(world, **fields):
    world.cluster.put("Node", a_node())
    await world.planned(**fields)
    world.serve()
    await world.look()
    assert world.ready()["status"] == "True"


async def test_a_refused_event_changes_nothing_of_the_status(world):
    """A quota of Events, or missing rights: the condition has the same words."""
    world.cluster.put("Node", a_node())
    await world.planned()
    world.serve()
    refuse(world, "create", "Event")
    await world.look()
    assert world.ready()["reason"] == "Running"
    assert condition(world, "Progressing")["reason"] == "Settled"
    await world.look()
    assert world.cluster.writes == []


async def test_a_rejected_spec_does_not_hide_that_the_pods_died(world):
    await served(world)
    world.put_service(**BROKEN)
    await world.look()
    assert (world.ready()["reason"], condition(world, "WorkloadReady")["reason"]) == ("PartlyReady", "Running")
    world.cluster.one("Deployment", "qwen")["status"].update(readyReplicas=0, availableReplicas=0)
    await world.look()
    status = world.cluster.one("LLMService", "qwen")["status"]
    assert (status["ready"], status["readyReplicas"], status["replicas"]) == ("0/1", 0, 1)
    assert (world.ready()["status"], world.ready()["reason"]) == ("False", "NodePathForbidden")
    assert (condition(world, "WorkloadReady")["status"], condition(world, "WorkloadReady")["reason"]) == (
        "False",
        "Starting",
    )
    await world.look()
    assert world.cluster.writes == []


async def test_a_failure_of_the_operator_does_not_hide_that_the_pods_died(world):
    await served(world)
    world.cluster.one("Deployment", "qwen")["status"].update(readyReplicas=0)
    await world.reconciler.failed(KEY, RecursionError("too deep"))
    status = world.cluster.one("LLMService", "qwen")["status"]
    assert (status["ready"], world.ready()["reason"]) == ("0/1", "InternalError")


async def test_a_resource_that_is_not_read_wants_what_it_wanted(world):
    await served(world, replicas=2)
    world.cluster.put("LLMService", stub(world.cluster.one("LLMService", "qwen"), "the resource has 700 KiB"))
    world.cluster.one("Deployment", "qwen")["status"].update(replicas=2, readyReplicas=2)
    await world.look()
    assert world.cluster.one("LLMService", "qwen")["status"]["ready"] == "2/2"
    assert condition(world, "WorkloadReady")["message"] == "2 of 2 replicas answer"


async def test_an_object_that_cannot_be_read_does_not_keep_the_failure_untold(world):
    await served(world)
    world.cluster.one("Deployment", "qwen")["spec"]["replicas"] = "many"
    await world.reconciler.failed(KEY, RecursionError("too deep"))
    assert condition(world, "Progressing")["reason"] == "InternalError"
    assert world.cluster.one("LLMService", "qwen")["status"]["ready"] == "1/1"


async def test_an_address_goes_with_its_object_and_another_s_pods_are_not_counted(world):
    await served(world, expose=WAY_IN)
    place = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    world.cluster.one("Ingress", "qwen")["status"] = place
    await world.look()
    names = lambda: [row["name"] for row in world.cluster.one("LLMService", "qwen")["status"]["addresses"]]  # noqa: E731
    assert names() == ["cluster", "ingress"]
    world.put_service(**BROKEN, expose=WAY_IN)
    await world.look()
    assert names() == ["cluster", "ingress"]
    del world.cluster.objects["Ingress", "qwen"]
    world.cluster.one("Deployment", "qwen")["metadata"]["ownerReferences"] = []
    await world.look()
    assert names() == ["cluster"]
    assert world.cluster.one("LLMService", "qwen")["status"]["readyReplicas"] == 0


async def test_a_refused_budget_holds_up_no_delete(world):
    """No pod needs it: the Deployment is scaled, and the Ingress that is no longer wanted goes."""
    await served(world, expose=WAY_IN)
    refuse(world, "apply", "PodDisruptionBudget")
    world.cluster.one("PodDisruptionBudget", "qwen")["spec"] = {}
    world.put_service(replicas=2)
    await world.look()
    assert world.cluster.one("Ingress", "qwen") is None
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 2
    assert condition(world, "Progressing")["reason"] == "Rejected"


async def test_a_refused_group_leaves_the_pods_that_serve(world):
    """One node's Deployment goes only when the group that replaces it is there."""
    await served(world)
    world.cluster.put("Node", a_node("n2"))
    refuse(world, "create", "StatefulSet")
    world.put_service(**TWO_NODES)
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 1
    assert condition(world, "Progressing")["reason"] == "Rejected"


async def test_pods_come_after_the_service_that_they_need(world):
    world.cluster.put("Node", a_node())
    refuse(world, "create", "Service")
    await world.planned()
    assert world.cluster.one("Deployment", "qwen") is None
    assert world.ready()["reason"] == "Rejected"


async def test_model_and_plan_stay_in_the_conditions_while_the_workload_is_refused(world):
    """The Job is over and the plan is made: only the workload is not as it should be. Another look changes nothing."""
    world.cluster.put("Node", a_node())
    refuse(world, "create", "Deployment")
    await world.planned()
    for _ in range(2):
        rows = {type_: condition(world, type_) for type_ in ("ModelReady", "Planned", "WorkloadReady", "Ready")}
        assert {type_: (row["status"], row["reason"]) for type_, row in rows.items()} == {
            "ModelReady": ("True", "ModelFound"),
            "Planned": ("True", "Planned"),
            "WorkloadReady": ("False", "Rejected"),
            "Ready": ("False", "Rejected"),
        }
        assert "a webhook denied it" in rows["WorkloadReady"]["message"]
        assert world.cluster.one("LLMService", "qwen")["status"]["plan"]["gpuType"] == "L20"
        assert await world.look() == 60.0
    assert world.cluster.writes == []


async def test_a_refused_change_leaves_the_plan_of_the_pods_that_serve(world):
    """The conditions tell of the new spec's model and plan; the pods and their figures are those of the earlier one."""
    await served(world)
    refuse(world, "apply", "Deployment")
    world.put_service(engine={"maxModelLen": 1024})
    await world.look()
    status = world.cluster.one("LLMService", "qwen")["status"]
    assert (world.ready()["reason"], condition(world, "WorkloadReady")["reason"]) == ("PartlyReady", "Running")
    assert "context 1024" in condition(world, "Planned")["message"]
    assert status["plan"]["maxModelLen"] == 2048
    assert (status["observedGeneration"], status["servedGeneration"]) == (2, 1)


async def test_suspending_needs_no_service(world):
    await served(world)
    refuse(world, "apply", "Service")
    world.cluster.one("Service", "qwen")["spec"]["ports"] = []
    world.put_service(suspend=True)
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 0


async def test_the_status_reports_a_refused_deletion(world):
    await served(world, expose=WAY_IN)
    refuse(world, "delete", "Ingress")
    world.put_service()
    assert await world.look() == 60.0
    row = condition(world, "Progressing")
    assert (row["reason"], "refuses Ingress qwen" in row["message"]) == ("Rejected", True)


@pytest.mark.parametrize("wish", [{"suspend": True}, {"replicas": 0}], ids=["suspend", "no replica"])
async def test_no_replica_is_wanted_while_the_model_cannot_be_found(world, wish):
    """The pods end with the template that they have, and come back with the model."""
    await served(world)
    template = world.cluster.one("Deployment", "qwen")["spec"]["template"]
    world.put_service(**NOWHERE, **wish)
    await world.look()
    assert "; replicas that are still there: 1" in world.ready()["message"]
    for key in [key for key in world.cluster.objects if key[0] == "Pod"]:
        del world.cluster.objects[key]
    world.end_job(BAD)
    world.cluster.one("Deployment", "qwen")["status"] = {"observedGeneration": 1}
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 0
    assert world.cluster.one("Deployment", "qwen")["spec"]["template"] == template
    assert condition(world, "ModelReady")["reason"] == "PathNotFound"
    assert "still there" not in world.ready()["message"]
    await world.look()
    assert world.cluster.writes == []


async def test_no_replica_is_wanted_of_a_group_whose_model_cannot_be_found(world):
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    play_kubelets(world, "one")
    await world.look()
    world.put_service(**TWO_NODES, **NOWHERE, suspend=True)
    await world.look()
    assert [row["spec"]["replicas"] for row in world.cluster.all("StatefulSet")] == [0]


async def test_no_replica_is_wanted_of_a_rejected_spec(world):
    await served(world)
    world.put_service(**BROKEN, suspend=True)
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 0
    assert world.ready()["reason"] in ("PartlyReady", "NodePathForbidden")


async def test_a_paused_rollout_goes_on(world):
    """`kubectl rollout pause` would hold up every later change; the API server leaves `paused: false` out."""
    await served(world)
    world.cluster.one("Deployment", "qwen")["spec"]["paused"] = True
    await world.look()
    assert world.cluster.writes[0] == "apply Deployment/qwen"
    assert "paused" not in world.cluster.one("Deployment", "qwen")["spec"]
    world.serve()
    await world.look()
    world.reconciler = world.another_operator()
    await world.look()
    assert world.cluster.writes == []
