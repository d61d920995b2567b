"""An operator's upgrade replaces no pod: what keeps a template, as a table, and upgrades on a cluster of dicts."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from windlass_api.plan.record import PLAN_ANNOTATION, digest_of, recorded_plan, sealed
from windlass_operator.errors import Unavailable
from windlass_operator.reconcile import earlier
from windlass_operator.reconcile.earlier import RENDERED_ANNOTATION, Desired, Rendered, remembered
from windlass_operator.reconcile.reconciler import Reconciler
from windlass_operator.records.base import parse
from windlass_operator.records.workloads import Deployment
from windlass_operator.settings import Settings
from windlass_operator.status import conditions as c

from .test_groups import TWO_NODES, play_kubelets
from .test_reconciler import GOOD, a_node, world

__all__ = ["world"]

OLD, NEW = "windlass/operator:1.2", "windlass/operator:1.3"
RESTARTED = "serving.windlass.dev/restartedAt"


def a_template(image: str) -> dict:
    containers = [{"name": "server", "image": image, "terminationMessagePath": "/dev/termination-log"}]
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}


BEFORE, TODAY, EDITED = a_template("server:1.2"), a_template("server:1.3"), a_template("server:edited")
NOW = Desired(generation=3, operator=NEW, restarted="", plan="p", spec="s", adopts=False)
EDITED_SINCE = replace(NOW, generation=4, spec="t")
BY_OLD = Rendered(generation=3, operator=OLD, plan="p", template=digest_of(BEFORE), spec="s")
KEPT = Rendered(generation=3, operator=NEW, plan="p", template=digest_of(TODAY), spec="s", kept=BEFORE)


def stays(live: dict | None, rendered: dict, now: Desired) -> dict | None:
    return earlier.stays(parse(Deployment, live) if live else None, rendered, now)


def a_workload(said: Rendered | None, template: dict = BEFORE, replicas: int = 1) -> dict:
    annotations = {RENDERED_ANNOTATION: said.to_text()} if said else {}
    spec = {"replicas": replicas, "template": template}
    return {"kind": "Deployment", "metadata": {"name": "q", "annotations": annotations}, "spec": spec}


@pytest.mark.parametrize(
    ("live", "now", "kept"),
    [
        pytest.param(None, NOW, None, id="nothing there yet"),
        pytest.param(a_workload(BY_OLD), NOW, BEFORE, id="another operator, the same service"),
        pytest.param(a_workload(BY_OLD), replace(NOW, operator=OLD), None, id="the same operator, other settings"),
        pytest.param(a_workload(BY_OLD), EDITED_SINCE, None, id="the service changed meanwhile"),
        pytest.param(a_workload(BY_OLD), replace(NOW, generation=4), BEFORE, id="the service was scaled meanwhile"),
        pytest.param(a_workload(replace(BY_OLD, spec="")), EDITED_SINCE, None, id="a memory that knows no spec"),
        pytest.param(a_workload(BY_OLD), replace(NOW, plan="other"), None, id="another plan"),
        pytest.param(a_workload(BY_OLD), replace(NOW, restarted="1"), None, id="told to restart"),
        pytest.param(a_workload(BY_OLD, replicas=0), NOW, None, id="no pods that could be replaced"),
        pytest.param(a_workload(replace(BY_OLD, template=digest_of(TODAY))), NOW, None, id="the same rendering"),
        pytest.param(a_workload(KEPT), NOW, BEFORE, id="kept already"),
        pytest.param(a_workload(KEPT), replace(NOW, generation=4), BEFORE, id="kept, and only replicas changed"),
        pytest.param(a_workload(KEPT, EDITED), NOW, BEFORE, id="kept, and edited by somebody"),
        pytest.param(a_workload(KEPT, EDITED), replace(NOW, operator="1.4"), BEFORE, id="edited between two operators"),
        pytest.param(a_workload(replace(KEPT, template="other")), NOW, None, id="kept, and its pods' spec changed"),
        pytest.param(a_workload(replace(KEPT, restarted="1")), NOW, None, id="kept, and told to restart"),
        pytest.param(a_workload(None), NOW, None, id="no memory, and today's plan made it"),
        pytest.param(a_workload(None), replace(NOW, adopts=True), BEFORE, id="of an operator that remembers nothing"),
        pytest.param(a_workload(None), replace(NOW, adopts=True, restarted="1"), None, id="of such one, restarted"),
    ],
)
def test_a_template_stays(live: dict | None, now: Desired, kept: dict | None) -> None:
    assert stays(live, TODAY, now) == kept


def test_what_others_added_stays_theirs() -> None:
    """`kubectl rollout restart` of the Deployment writes an annotation that must not become ours."""
    live = a_workload(BY_OLD, copy.deepcopy(BEFORE))
    live["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "today"}
    assert stays(live, TODAY, NOW) == BEFORE


def test_an_edited_memory_counts_for_nothing() -> None:
    live = a_workload(KEPT)
    said = json.loads(live["metadata"]["annotations"][RENDERED_ANNOTATION])
    said["kept"]["spec"]["containers"][0]["image"] = "server:edited"
    live["metadata"]["annotations"][RENDERED_ANNOTATION] = json.dumps(said)
    assert remembered(parse(Deployment, live)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"kept": {}},
        {"kept": {"spec": "x"}},
        {"kept": {"spec": {"containers": "server"}}},
        {"kept": {"spec": {"containers": ["server"]}}},
        {"kept": {"spec": {"containers": [], "volumes": [7]}}},
        {"kept": []},
        {"generation": "3"},
        {"generation": 10**400},
        {"plan": None},
    ],
    ids=lambda wrong: repr(wrong)[:40],
)
def test_a_memory_of_wrong_types_counts_for_nothing(wrong) -> None:
    """A seal that fits proves nothing: an editor of the annotation can make one."""
    live = a_workload(KEPT)
    forged = json.loads(live["metadata"]["annotations"][RENDERED_ANNOTATION]) | wrong
    forged.pop("seal")
    live["metadata"]["annotations"][RENDERED_ANNOTATION] = sealed(forged)
    assert remembered(parse(Deployment, live)) is None


async def upgrade(world) -> None:
    """The next release's operator takes over, with the next serving image as its default, and looks at the model."""
    settings = Settings("windlass/server", "1.3", NEW)
    world.reconciler = Reconciler(world.cluster, world.http, settings, clock=lambda: world.now)
    await world.look()
    await world.look()
    world.end_job(GOOD)
    await world.look()


def image(world, kind="Deployment", name="qwen") -> str:
    return world.cluster.one(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]


def outdated(world):
    return c.find(world.cluster.one("LLMService", "qwen")["status"]["conditions"], c.OUTDATED)


async def served(world) -> None:
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned()
    world.serve()
    await world.look()


async def at_rest(world) -> bool:
    """Whether looks come to write nothing."""
    for _ in range(3):
        await world.look()
    return world.cluster.writes == []


def as_of_0_1_0(world) -> None:
    """What the first release left: no memory, a plan under digests of its own, a status that names no served spec."""
    for row in (*world.cluster.all("Deployment"), *world.cluster.all("StatefulSet")):
        del row["metadata"]["annotations"][RENDERED_ANNOTATION]
    notes = world.cluster.one("Service", "qwen")["metadata"]["annotations"]
    record = recorded_plan(notes[PLAN_ANNOTATION])
    assert record is not None
    notes[PLAN_ANNOTATION] = replace(record, digest="of-0-1-0", pods="of-0-1-0").to_text()
    world.cluster.one("LLMService", "qwen")["status"].pop("servedGeneration")


@pytest.mark.parametrize("first", [False, True], ids=["of the last release", "of 0.1.0"])
async def test_an_upgrade_replaces_nothing_and_says_so(world, first) -> None:
    await served(world)
    if first:
        as_of_0_1_0(world)
    template = copy.deepcopy(world.cluster.one("Deployment", "qwen")["spec"]["template"])
    await upgrade(world)
    assert world.cluster.one("Deployment", "qwen")["spec"]["template"] == template
    assert await at_rest(world)
    assert world.cluster.one("Deployment", "qwen")["spec"]["template"] == template
    row = outdated(world)
    assert row["reason"] == "RenderedEarlier"
    assert "windlass/server:1.2" in row["message"]
    assert RESTARTED in row["message"]


async def test_an_upgrade_ends_between_its_writes(world) -> None:
    """The Service is written first; an operator that begins anew after that finds the same template in force."""
    await served(world)
    as_of_0_1_0(world)
    before = copy.deepcopy(world.cluster.one("Deployment", "qwen"))
    await upgrade(world)
    world.cluster.put("Deployment", before)
    await upgrade(world)
    assert image(world) == "windlass/server:1.2"


async def test_replicas_change_and_pods_stay(world) -> None:
    await served(world)
    await upgrade(world)
    world.put_service(replicas=2)
    await world.look()
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 2
    assert image(world) == "windlass/server:1.2"
    assert await at_rest(world)


async def test_an_edit_of_the_kept_template_is_put_back(world) -> None:
    await served(world)
    await upgrade(world)
    world.cluster.one("Deployment", "qwen")["spec"]["template"]["spec"]["containers"][0]["image"] = "elsewhere"
    await world.look()
    assert image(world) == "windlass/server:1.2"


async def test_a_change_of_the_service_takes_the_newer(world) -> None:
    await served(world)
    await upgrade(world)
    world.put_service(args=["--seed", "1"])
    await world.look()
    assert image(world) == "windlass/server:1.3"
    assert outdated(world) is None
    assert await at_rest(world)


async def test_the_annotation_takes_the_newer_and_restarts(world) -> None:
    """And another value replaces the pods again, though nothing else changed."""
    await served(world)
    await upgrade(world)
    for moment in ("1", "2"):
        world.cluster.one("LLMService", "qwen")["metadata"]["annotations"] = {RESTARTED: moment}
        await world.look()
        assert image(world) == "windlass/server:1.3"
        template = world.cluster.one("Deployment", "qwen")["spec"]["template"]
        assert template["metadata"]["annotations"] == {RESTARTED: moment}
        assert outdated(world) is None
        assert await at_rest(world)


async def test_a_suspended_service_comes_back_as_todays(world) -> None:
    await served(world)
    await upgrade(world)
    world.put_service(suspend=True)
    await world.look()
    world.put_service()
    await world.look()
    assert image(world) == "windlass/server:1.3"


async def test_other_settings_of_the_same_operator_are_taken(world) -> None:
    """An administrator who changes the chart's values means it, as before."""
    await served(world)
    world.reconciler._settings = replace(world.reconciler._settings, server_version="1.2.1")
    world.reconciler._planning = replace(world.reconciler._planning, settings=world.reconciler._settings)
    await world.look()
    assert image(world) == "windlass/server:1.2.1"


async def test_groups_stay_and_a_new_replica_is_todays(world) -> None:
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES)
    play_kubelets(world, "one")
    await world.look()
    await upgrade(world)
    assert "StatefulSet/qwen-0" in " ".join(world.cluster.writes)  # its memory alone
    assert not [write for write in world.cluster.writes if write.startswith("delete Pod")]
    world.put_service(**TWO_NODES, replicas=2)
    await world.look()
    assert image(world, "StatefulSet", "qwen-0") == "windlass/server:1.2"
    assert image(world, "StatefulSet", "qwen-1") == "windlass/server:1.3"


async def test_a_scale_in_the_hand_over_replaces_nothing(world) -> None:
    """The newer operator's first look finds another generation, of which only the replicas differ."""
    await served(world)
    world.put_service(replicas=2)
    await upgrade(world)
    assert world.cluster.one("Deployment", "qwen")["spec"]["replicas"] == 2
    assert image(world) == "windlass/server:1.2"
    assert await at_rest(world)


@pytest.mark.parametrize("first", [False, True], ids=["of the last release", "of 0.1.0"])
async def test_a_change_in_the_hand_over_takes_the_newer(world, first) -> None:
    await served(world)
    if first:
        as_of_0_1_0(world)
    world.put_service(args=["--seed", "1"])
    await upgrade(world)
    assert image(world) == "windlass/server:1.3"


async def test_a_failed_inspection_before_the_hand_over_replaces_nothing(world) -> None:
    """The newer operator writes its failure into the status before it has taken the pods of 0.1.0 over."""
    await served(world)
    as_of_0_1_0(world)
    settings = Settings("windlass/server", "1.3", NEW)
    world.reconciler = Reconciler(world.cluster, world.http, settings, clock=lambda: world.now)
    await world.look()
    await world.look()
    world.end_job('{"ok": false, "reason": "PathNotFound", "message": "the share is away"}')
    await world.look()
    status = world.cluster.one("LLMService", "qwen")["status"]
    assert (c.find(status["conditions"], c.MODEL_READY) or {})["status"] == c.FALSE
    for pod in world.cluster.all("Pod"):
        if "labels" in pod["metadata"] and pod["status"].get("phase") == "Succeeded":
            world.cluster.objects.pop(("Pod", pod["metadata"]["name"]))
    world.cluster.objects = {key: row for key, row in world.cluster.objects.items() if key[0] != "Job"}
    await world.look()
    world.end_job(GOOD)
    await world.look()
    assert image(world) == "windlass/server:1.2"
    assert outdated(world) is not None


async def test_a_refusal_before_the_hand_over_replaces_nothing(world) -> None:
    """An installation that forbids what 0.1.0 served, and then allows it."""
    await served(world)
    as_of_0_1_0(world)
    service = world.cluster.one("LLMService", "qwen")
    good = copy.deepcopy(service["spec"])
    service["spec"]["replicas"] = "two"  # as a CRD of another release may let through
    await upgrade_looks(world)
    assert (c.find(service["status"]["conditions"], c.PROGRESSING) or {})["reason"] == "Rejected"
    service["spec"] = good
    await upgrade(world)
    assert image(world) == "windlass/server:1.2"


async def upgrade_looks(world) -> None:
    """The next release's operator looks once."""
    settings = Settings("windlass/server", "1.3", NEW)
    world.reconciler = Reconciler(world.cluster, world.http, settings, clock=lambda: world.now)
    await world.look()


async def test_groups_of_0_1_0_stay_over_reconciles_that_end_between_their_writes(world, monkeypatch) -> None:
    """The Service and the first group are written, the second one fails, twice."""
    for name in ("n1", "n2"):
        world.cluster.put("Node", a_node(name))
    await world.planned(**TWO_NODES, replicas=2)
    await world.look()
    as_of_0_1_0(world)
    apply = world.cluster.apply

    async def failing(manifest):
        if manifest["metadata"]["name"] == "qwen-1" and manifest["kind"] == "StatefulSet":
            raise Unavailable("the API server does not answer")
        return await apply(manifest)

    monkeypatch.setattr(world.cluster, "apply", failing)
    with pytest.raises(Unavailable):
        await upgrade(world)
    with pytest.raises(Unavailable):
        await world.look()
    monkeypatch.setattr(world.cluster, "apply", apply)
    await world.look()
    assert image(world, "StatefulSet", "qwen-0") == "windlass/server:1.2"
    assert image(world, "StatefulSet", "qwen-1") == "windlass/server:1.2"
