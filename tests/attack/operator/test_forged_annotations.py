"""Annotations that an editor of the namespace wrote, with a seal that fits: plans, facts, kept templates.

The operator believes none beyond the types and bounds of its own, mounts no directory of the nodes by them, replaces no
pod and goes on. The cluster is one of dicts; the paths are harmless words.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from windlass_api.crd.pod_template import PodSpecPiece
from windlass_api.crd.pods import NODES_MAX
from windlass_api.names import JOB_ANNOTATION, RESULT_ANNOTATION
from windlass_api.plan.record import PLAN_ANNOTATION, digest_of, sealed, unsealed
from windlass_operator.reconcile.earlier import RENDERED_ANNOTATION
from windlass_operator.status import conditions as c

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "operator" / "tests"))

from reconcile.test_reconciler import GOOD, World, a_node

ALLOWED = "/models"
SOURCES = {
    "hostPath": {"hostPath": {"path": f"{ALLOWED}/adapter"}},
    "gooseFSx": {"gooseFSx": {"mountPath": ALLOWED, "path": "adapter"}},
}
OUTSIDE = ["/etc", "/", "../x", "a/../../x"]


@pytest.fixture
async def world():
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(404))) as http:
        one = World(http)
        one.reconciler = one.another_operator(node_paths=(ALLOWED,))
        one.cluster.put("Node", a_node())
        yield one


def adapter(base: str) -> str:
    """The answer of an inspection that found an adapter and its base."""
    facts = json.loads(GOOD)["facts"]
    return json.dumps({"ok": True, "facts": {**facts, "is_adapter": True, "base_path": base}})


def annotations(world: World, kind: str, name: str = "qwen") -> dict[str, str]:
    notes: dict[str, str] = world.cluster.one(kind, name)["metadata"].setdefault("annotations", {})
    return notes


def condition(world: World, kind: str = c.MODEL_READY) -> Any:
    return c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], kind)


def node_paths(world: World) -> set[str]:
    """Every directory of the nodes that a pod of any workload mounts."""
    workloads = [row for kind in ("Deployment", "StatefulSet", "Job") for row in world.cluster.all(kind)]
    volumes = [volume for row in workloads for volume in row["spec"]["template"]["spec"]["volumes"]]
    return {row["hostPath"]["path"] for row in volumes if "hostPath" in row}


async def served(world: World, **fields: Any) -> dict[str, Any]:
    """A service that runs, and its Deployment."""
    await world.planned(**fields)
    world.serve()
    await world.look()
    assert world.ready()["status"] == "True"
    return json.loads(json.dumps(world.cluster.one("Deployment", "qwen")))


async def at_rest(world: World) -> bool:
    """Whether a second look writes nothing."""
    await world.look()
    await world.look()
    return world.cluster.writes == []


@pytest.mark.parametrize("base", OUTSIDE)
@pytest.mark.parametrize("source", SOURCES)
async def test_forged_facts_lead_to_no_directory_of_the_nodes(world, source, base):
    """M2: the sentence names the annotation, the Job runs again, and its true answer is served."""
    world.put_service(model={"id": "m", "source": SOURCES[source]})
    await world.look()
    (job,) = world.cluster.all("Job")
    annotations(world, "Job", job["metadata"]["name"])[RESULT_ANNOTATION] = adapter(base)
    await world.look()
    assert world.cluster.all("Deployment") == []
    assert condition(world)["reason"] == "InspectFailed"
    assert (
        f"the annotation {RESULT_ANNOTATION} of Job {job['metadata']['name']} is not believed"
        in (condition(world)["message"])
    )
    world.minute += 2
    await world.look()
    await world.look()
    world.end_job(adapter("base"))
    await world.look()
    assert node_paths(world) == {ALLOWED, f"{ALLOWED}/adapter", f"{ALLOWED}/base"}
    assert await at_rest(world)


async def test_forged_facts_replace_no_pod(world):
    """The Service keeps them; the pods stay while the directory is looked at again, and afterwards."""
    before = await served(world)
    (job,) = world.cluster.all("Job")
    annotations(world, "Service").update({RESULT_ANNOTATION: adapter("/etc"), JOB_ANNOTATION: job["metadata"]["uid"]})
    await world.look()
    assert (condition(world)["status"], world.cluster.one("Deployment", "qwen")) == ("False", before)
    world.minute += 2
    await world.look()
    await world.look()
    (job,) = world.cluster.all("Job")
    job["metadata"]["uid"] = "made anew"
    world.end_job(GOOD)
    await world.look()
    assert (condition(world)["status"], world.cluster.one("Deployment", "qwen")) == ("True", before)
    assert await at_rest(world)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": "x"},
        {"nodes": NODES_MAX + 1},
        {"nodes": 10**12},
        {"gpus": [2]},
        {"tp": True},
        {"weights_gib": 1e308},
        {"weights_gib": "NaN"},
        {"node_selector": "x"},
        {"because": {"a": 1}},
        {"cpu": 7},
        *({"base": base} for base in OUTSIDE),
    ],
    ids=lambda wrong: repr(wrong)[:40],
)
async def test_a_forged_plan_is_no_plan(world, wrong, caplog):
    """M3: it is planned anew at once, the pods stay, and the log has one sentence."""
    before = await served(world)
    notes = annotations(world, "Service")
    plan = notes[PLAN_ANNOTATION]
    fields = unsealed(plan)
    assert fields is not None
    notes[PLAN_ANNOTATION] = sealed({**fields, "plan": {**fields["plan"], **wrong}})
    caplog.clear()
    await world.look()
    warnings = [row.getMessage() for row in caplog.records if "not believed" in row.getMessage()]
    assert len(warnings) == 1
    assert f"the annotation {PLAN_ANNOTATION} of Service qwen is not believed" in warnings[0]
    assert annotations(world, "Service")[PLAN_ANNOTATION] == plan
    assert world.cluster.one("Deployment", "qwen") == before
    assert await at_rest(world)
    assert world.ready()["status"] == "True"


@pytest.mark.parametrize("number", ["NaN", "1e999", "9" * 400])
async def test_a_plan_with_a_number_that_only_python_reads_is_no_plan(world, number):
    before = await served(world)
    notes = annotations(world, "Service")
    plan = notes[PLAN_ANNOTATION]
    body, _, _ = plan.replace('"nodes":1', f'"nodes":{number}').partition(',"seal"')
    notes[PLAN_ANNOTATION] = f'{body},"seal":"{digest_of(json.loads(body + "}"))}"}}'
    assert unsealed(notes[PLAN_ANNOTATION]) is not None
    await world.look()
    assert annotations(world, "Service")[PLAN_ANNOTATION] == plan
    assert world.cluster.one("Deployment", "qwen") == before


async def test_a_forged_template_mounts_no_directory_of_the_nodes(world):
    """A template that an earlier operator is said to have rendered is held against nodePaths as well."""
    before = await served(world)
    notes = annotations(world, "Deployment")
    fields = unsealed(notes[RENDERED_ANNOTATION])
    assert fields is not None
    template = before["spec"]["template"]
    volumes = [*template["spec"]["volumes"], {"name": "x", "hostPath": {"path": "/etc"}}]
    kept = {**template, "spec": {**template["spec"], "volumes": volumes}}
    notes[RENDERED_ANNOTATION] = sealed({**fields, "kept": kept})
    await world.look()
    assert condition(world, "Progressing")["reason"] == "NodePathForbidden"
    assert "the pods of Deployment qwen would mount /etc of the nodes" in condition(world, "Progressing")["message"]
    assert world.cluster.one("Deployment", "qwen")["spec"]["template"] == template
    world.cluster.one("LLMService", "qwen")["metadata"]["annotations"] = {"serving.windlass.dev/restartedAt": "1"}
    await world.look()
    assert condition(world, "Progressing")["reason"] != "NodePathForbidden"
    assert node_paths(world) == set()


@pytest.mark.parametrize("wrong", [{"spec": "x"}, {"spec": {"containers": ["x"]}}, {}], ids=repr)
async def test_a_forged_template_of_wrong_types_is_none(world, wrong, caplog):
    before = await served(world)
    notes = annotations(world, "Deployment")
    rendered = notes[RENDERED_ANNOTATION]
    fields = unsealed(rendered)
    assert fields is not None
    notes[RENDERED_ANNOTATION] = sealed({**fields, "kept": wrong})
    caplog.clear()
    await world.look()
    assert f"the annotation {RENDERED_ANNOTATION} of Deployment qwen is not believed" in caplog.text
    assert world.cluster.one("Deployment", "qwen")["spec"]["template"] == before["spec"]["template"]
    assert await at_rest(world)


VOLUME = {"volumes": [{"name": "x", "hostPath": {"path": "/etc"}}]}


async def test_a_pod_template_has_no_directory_of_the_nodes(world):
    """The schema knows no such volume."""
    world.put_service(podTemplate={"spec": VOLUME})
    await world.look()
    assert world.ready()["reason"] == "Rejected"
    assert (world.cluster.all("Job"), world.cluster.all("Deployment")) == ([], [])


async def test_a_pod_template_that_the_schema_let_through_is_held_too(world, monkeypatch):
    """As a later field of the schema could: the rendered pod is what is judged."""
    monkeypatch.setattr(PodSpecPiece, "to_piece", lambda _: VOLUME)
    await world.planned()
    assert world.ready()["reason"] == "NodePathForbidden"
    assert "the pods of Deployment qwen would mount /etc of the nodes" in world.ready()["message"]
    assert world.cluster.all("Deployment") == []
    assert await at_rest(world)
