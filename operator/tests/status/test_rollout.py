"""Status of a rollout: what serves, how many pods are of which revision, and of what Ready speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from windlass_operator.status import conditions as c
from windlass_operator.status.hold import Hold
from windlass_operator.status.observe import Seen, Subject, observe, rejected

from .as_read import children as as_read
from .test_observe import FAILED, FOUND, NOW, PLANNED, THEN, WRONG, a_deployment, a_pod, a_subject, serving

PLANS = {"before": {"gpus": 1, "tp": 1, "maxModelLen": 2048}, "now": {"gpus": 2, "tp": 2, "maxModelLen": 1024}}
RUNS = {
    "not rendered yet": (a_deployment(1), None, ("True", "Running", 1), "before", 1),
    "its controller has not looked": (a_deployment(1, generation=2), "now", ("True", "Running", 1), "before", 1),
    "old and new": (a_deployment(1, replicas=2, updated=1), "now", ("True", "RollingOut", 1), "before", 1),
    "no new pod yet": (a_deployment(1, updated=0), "now", ("True", "RollingOut", 1), "before", 0),
    "the old one is gone": (a_deployment(0), "now", ("False", "Starting", 2), "now", 1),
    "over": (a_deployment(1), "now", ("True", "Running", 2), "now", 1),
}


@pytest.mark.parametrize(("deployment", "plan", "ready", "shown", "updated"), RUNS.values(), ids=RUNS)
def test_a_rollout_shows_what_serves(deployment, plan, ready, shown, updated):
    """Ready speaks of the spec whose replicas all answer: kubectl wait compares its generation with the spec's."""
    before = observe(a_subject(), replace(serving(1), plan=PLANS["before"]), THEN)
    seen = Seen(children=as_read(deployment=deployment, service={}), inspection=FOUND, planned=PLANNED)
    status = observe(a_subject(previous=before, generation=2), replace(seen, plan=PLANS.get(plan)), NOW)
    row = c.find(status["conditions"], "Ready")
    assert (row["status"], row["reason"], row["observedGeneration"]) == ready
    assert (status["inForce"], status["updatedReplicas"]) == (PLANS[shown], updated)
    assert {one["observedGeneration"] for one in status["conditions"] if one is not row} == {2}
    assert status["plan"] == PLANS[plan or "before"]


def test_the_counts_of_a_rollout_stand_in_ready():
    """Ready also says why the new pods do not come up."""
    ended = {"exitCode": 2, "message": '{"reason": "BadFlag", "message": "unknown flag --x"}'}
    pods = (a_pod({"running": {}}, ready=True), a_pod({"terminated": ended}))
    children = as_read(deployment=a_deployment(1, replicas=3, updated=1), service={}, pods=pods)
    seen = Seen(children=children, inspection=FOUND, planned=PLANNED, plan={"gpus": 1})
    message = c.find(observe(a_subject(replicas=2), seen, NOW)["conditions"], "Ready")["message"]
    assert message.startswith("1 of 2 replicas answer; pods of the earlier revision: 2, of the new one: 1; ")
    assert "unknown flag --x" in message


def a_look(previous, generation, ready, replicas):
    children = as_read(deployment=a_deployment(ready, replicas=replicas), service={})
    seen = Seen(children=children, inspection=FOUND, planned=PLANNED, plan={"gpus": 1})
    status = observe(a_subject(replicas=replicas, previous=previous, generation=generation), seen, NOW)
    row = c.find(status["conditions"], "Ready")
    return status, (row["reason"], row["observedGeneration"])


def test_a_scale_is_in_force_when_all_replicas_answer():
    """A replica that ends afterwards makes it no earlier spec's; a new service speaks of no generation before."""
    first, ready = a_look(None, 1, 1, 2)
    assert ready == ("PartlyReady", 0)
    whole, ready = a_look(first, 1, 2, 2)
    assert ready == ("Running", 1)
    assert a_look(whole, 1, 1, 2)[1] == ("PartlyReady", 1)
    scaled, ready = a_look(whole, 2, 2, 3)
    assert ready == ("PartlyReady", 1)
    assert a_look(scaled, 3, 2, 4)[1] == ("PartlyReady", 1)
    assert a_look(scaled, 3, 2, 2)[1] == ("Running", 3)


def test_replicas_that_return_after_an_outage_are_of_no_earlier_spec():
    """Ready is False while none answers; then it speaks of the same generation again, and `kubectl wait` ends."""
    status, seen = None, []
    for answering in (2, 0, 1):
        status, ready = a_look(status, 5, answering, 2)
        seen.append((*ready, status["readyGeneration"]))
    assert seen == [("Running", 5, 5), ("Starting", 5, 5), ("PartlyReady", 5, 5)]
    assert a_look(status, 6, 1, 2)[1] == ("PartlyReady", 5)
    refused = rejected(a_subject(previous=status, generation=6), WRONG, NOW)
    assert refused["readyGeneration"] == 5


def test_a_status_without_the_generation_has_it_in_a_true_ready():
    """Operators before this one wrote Ready alone."""
    status, _ = a_look(None, 5, 2, 2)
    earlier = {key: value for key, value in status.items() if key != "readyGeneration"}
    assert a_look(earlier, 5, 1, 2)[1] == ("PartlyReady", 5)
    assert a_look(earlier, 6, 2, 3)[1] == ("PartlyReady", 5)


@pytest.mark.parametrize(
    "status_of",
    [
        lambda subject: rejected(subject, WRONG, NOW, as_read(deployment=a_deployment(1), service={})),
        lambda subject: rejected(subject, WRONG, NOW),
        lambda subject: observe(subject, replace(serving(1), inspection=FAILED, plan=None), NOW),
    ],
    ids=["refused", "refused, its objects unknown", "its model is not found"],
)
def test_a_refused_spec_never_becomes_ready(status_of):
    """Ready speaks of the spec before, which serves on; the same spec refused later stays what it was."""
    before = observe(a_subject(), serving(1), THEN)
    for generation in (2, 3):
        before = status_of(a_subject(previous=before, generation=generation))
        row = c.find(before["conditions"], "Ready")
        assert (row["status"], row["observedGeneration"], before["observedGeneration"]) == ("True", 1, generation)
    same = status_of(a_subject(previous=observe(a_subject(), serving(1), THEN)))
    assert c.find(same["conditions"], "Ready")["observedGeneration"] == 1


def test_a_service_without_pods_shows_no_gpus():
    """Suspended, scaled to zero or held: its GPUs are free. One whose pods still end holds them."""
    children = as_read(deployment=a_deployment(0, replicas=0), service={})
    seen = Seen(children=children, inspection=FOUND, planned=PLANNED, plan={"gpus": 2, "tp": 2})
    hold = Hold("BadFlag", "stopped", THEN, "d", 2, "server", 2, "x")
    suspended = Subject("qwen", "team-a", 1, 2, False, suspended=True)
    for subject, look in ((suspended, seen), (a_subject(replicas=0), seen), (a_subject(), replace(seen, held=hold))):
        assert observe(subject, look, NOW)["inForce"] == {"gpus": 0, "tp": 2}
    assert observe(a_subject(), seen, NOW)["inForce"]["gpus"] == 2
    assert observe(suspended, replace(serving(1), plan={"gpus": 2}), NOW)["inForce"]["gpus"] == 2
    before = {"plan": {"gpus": 2, "tp": 2}, "inForce": {"gpus": 2, "tp": 2}}
    stopped = Subject("qwen", "team-a", 2, 2, False, previous=before, suspended=True)
    assert rejected(stopped, WRONG, NOW, children)["inForce"] == {"gpus": 0, "tp": 2}
