"""Objects of the API server become records once; what is not there has its default, what is wrong is told."""

from __future__ import annotations

import msgspec
import pytest
from windlass_operator.cluster.decode import stub
from windlass_operator.records.base import Owner, Record, living, owned_by, parse
from windlass_operator.records.pods import ContainerState, Event, Pod, Terminated
from windlass_operator.records.routes import Expose, expose_of
from windlass_operator.records.workloads import Deployment, StatefulSet

THEN, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def a_pod(name="qwen-0", **meta):
    return {"metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": THEN, **meta}}


def test_fields_have_kubernetes_names():
    ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": THEN, "finishedAt": LATER}
    rows = [{"name": "server", "restartCount": 3, "lastState": {"terminated": ended}}]
    pod = parse(Pod, {**a_pod(), "status": {"podIP": "10.0.0.1", "containerStatuses": rows}})
    (row,) = pod.status.container_statuses
    assert (pod.status.pod_ip, row.restart_count, row.state) == ("10.0.0.1", 3, ContainerState())
    assert row.last_state.terminated == Terminated(137, "OOMKilled", "", THEN, LATER)


def test_what_is_not_there_has_its_default():
    """As in the stub of an object that is too large to be read."""
    pod = parse(Pod, stub({**a_pod(), "spec": {"nodeName": "n1"}}, "too large"))
    assert (pod.name, pod.spec.node_name, pod.status.phase, pod.is_ready, pod.is_leaving) == (
        "qwen-0",
        "",
        "",
        False,
        False,
    )


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": None},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": None, "message": None}]},
        {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "startedAt": None}}}]},
        None,
    ],
    ids=["no list", "no time", "never started", "no status"],
)
def test_a_null_is_a_field_that_is_not_there(status):
    """The API server writes null for a time that is zero."""
    pod = parse(Pod, {**a_pod(), "status": status})
    assert (pod.name, pod.is_ready) == ("qwen-0", False)


def test_an_event_without_a_time_has_none():
    assert parse(Event, {"eventTime": None, "lastTimestamp": None}).time == ""
    assert parse(Event, {"eventTime": LATER, "lastTimestamp": None}).time == LATER


@pytest.mark.parametrize(
    "item",
    [{"status": "up"}, {"status": {"podIP": 7}}, {"metadata": {"labels": ["a"]}}],
    ids=["text", "number", "list"],
)
def test_the_error_for_a_value_of_another_kind_names_its_place(item):
    """No API server sends one; the reconcile ends with these words in the status of its LLMService alone."""
    with pytest.raises(msgspec.ValidationError, match=r"\$\."):
        parse(Pod, item)


def test_only_the_controller_owns():
    owners = [{"uid": "other", "controller": False}, {"uid": "set", "controller": True}]
    pod = parse(Pod, a_pod(ownerReferences=owners))
    assert pod.metadata.owner_references[0] == Owner("other")
    assert (owned_by([pod], "set"), owned_by([pod], "other"), owned_by([Record()], "")) == ((pod,), (), ())


def test_the_newest_comes_first_and_what_leaves_is_left_out():
    pods = [a_pod("a"), a_pod("c", creationTimestamp=LATER), a_pod("b"), a_pod("d", deletionTimestamp=LATER)]
    assert [pod.name for pod in living(parse(Pod, pod) for pod in pods)] == ["c", "b", "a"]


def test_a_controller_that_has_not_looked_yet_is_behind():
    counts = {"observedGeneration": 1, "replicas": 2}
    assert parse(Deployment, {"metadata": {"generation": 2}, "status": counts}).is_behind
    assert not parse(StatefulSet, {"metadata": {"generation": 1}, "status": counts}).is_behind


@pytest.mark.parametrize("written", [None, "x", {"ingress": "x"}, {"path": 7}])
def test_an_expose_that_cannot_be_read_exposes_nothing(written):
    """Of a resource that is refused: its status must be written all the same."""
    assert expose_of(written) == Expose()
