"""The inspect Job follows the spec's nodes while it cannot start, and stays as it is once it is over."""

from __future__ import annotations

import httpx2
import pytest

from .test_reconciler import GOOD, World, a_node

DEDICATED = {"scheduling": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}}


@pytest.fixture
async def world():
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))) as http:
        yield World(http)


def the_job(world):
    (job,) = world.cluster.all("Job")
    return job


async def test_an_inspection_that_is_over_is_not_made_again_for_its_placement(world):
    """As an upgrade of the operator finds the Jobs of an earlier one: their pods never change."""
    world.cluster.put("Node", a_node())
    await world.planned(**DEDICATED)
    del the_job(world)["metadata"]["annotations"]["serving.windlass.dev/placed"]
    del the_job(world)["spec"]["template"]["spec"]["tolerations"]
    world.reconciler = world.another_operator(inspect_resources={"limits": {"cpu": "1"}})
    await world.look()
    assert not [write for write in world.cluster.writes if "Job/" in write]
    assert world.ready()["reason"] == "Starting"


async def test_an_inspection_that_cannot_start_follows_the_spec(world):
    """A pod that no node takes never changes; the toleration that it lacked is in the next one."""
    world.put_service()
    await world.look()
    meta = {
        "name": "pod-0", "uid": "pod-0", "labels": the_job(world)["spec"]["template"]["metadata"]["labels"],
        "ownerReferences": [{"uid": the_job(world)["metadata"]["uid"], "controller": True}],
    }  # fmt: skip
    words = "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: inference}."
    row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    world.cluster.put("Pod", {"metadata": meta, "status": {"phase": "Pending", "conditions": [row]}})
    await world.look()
    assert world.ready()["reason"] == "UntoleratedTaint"
    world.put_service(**DEDICATED)
    assert await world.look() == 1
    assert [write.split("-")[0] for write in world.cluster.writes if "Job" in write] == ["delete Job/qwen"]
    await world.look()
    assert the_job(world)["spec"]["template"]["spec"]["tolerations"][-1] == DEDICATED["scheduling"]["tolerations"][0]


async def test_an_inspection_whose_pod_an_injected_container_holds_open_ends_it(world):
    """Once the finding is kept elsewhere than in the pod, and once only."""
    world.cluster.put("Node", a_node())
    world.put_service()
    await world.look()
    world.end_job(GOOD)
    pod = world.cluster.one("Pod", "pod-0")
    proxy = {"name": "a-proxy", "state": {"running": {"startedAt": "t"}}}
    pod["status"] = {"phase": "Running", "containerStatuses": [proxy, *pod["status"]["containerStatuses"]]}
    await world.look()
    assert "suspend" not in the_job(world)["spec"]
    await world.look()
    assert the_job(world)["spec"]["suspend"] is True
    del world.cluster.objects["Pod", "pod-0"]
    await world.look()
    assert world.cluster.writes == []
    assert world.ready()["reason"] == "Starting"
