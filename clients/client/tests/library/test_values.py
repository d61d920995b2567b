"""What is sent is what the caller gave, and what was read is typed or said to be unreadable."""

from __future__ import annotations

import pytest
from windlass_api.crd.v1alpha1 import EngineSpec
from windlass_client import InvalidError, UnreadableError
from windlass_client.values import event_of, manifest_of, plain, pod_of, service_of

from .mock_api import a_service


def test_of_a_model_only_what_was_set_is_sent():
    """None that was set deletes; a default that was not set is nobody's wish."""
    assert plain({"spec": {"engine": EngineSpec(max_model_len=5, dtype=None)}}) == {
        "spec": {"engine": {"maxModelLen": 5, "dtype": None}}
    }


def test_what_the_server_wrote_does_not_go_back():
    """A read service is sent without uid, version and status; the namespace asked for wins."""
    sent = manifest_of(service_of({**a_service("a"), "status": {"ready": "1/1"}}), "other")
    assert sent["metadata"] == {"name": "a", "namespace": "other"}
    assert "status" not in sent


def test_a_null_is_a_field_that_is_not_given():
    """A server-side apply refuses a null that a create drops; a list keeps its rows, without nulls of their own."""
    spec = {"engine": {"dtype": None, "maxModelLen": 5}, "env": [{"name": "A", "value": None}], "args": None}
    sent = manifest_of({"metadata": {"name": "a", "labels": {"x": None, "y": "z"}}, "spec": spec}, "team")
    assert sent["spec"] == {"engine": {"maxModelLen": 5}, "env": [{"name": "A"}]}
    assert sent["metadata"]["labels"] == {"y": "z"}


WRONG = {
    "no name": ({"spec": {}}, "metadata.name is missing"),
    "another kind": ({"kind": "Pod", "metadata": {"name": "a"}}, 'kind is "Pod"'),
    "another version": ({"apiVersion": "v2", "metadata": {"name": "a"}}, 'apiVersion is "v2"'),
}


@pytest.mark.parametrize(("document", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_document_of_another_kind_is_refused_before_it_is_sent(document, words):
    with pytest.raises(InvalidError, match=words):
        manifest_of(document, "team")


def test_a_resource_of_a_newer_crd_is_named():
    """Unknown fields are left out; an unknown word in a known field says which client is too old for what."""
    raw = a_service("a", tomorrow=1)
    assert service_of(raw).spec.replicas == 1
    raw["spec"]["image"] = {"family": "tomorrow"}
    with pytest.raises(UnreadableError, match=r"llmservice team/a: spec\.image\.family: .*older than the CRD"):
        service_of(raw)


def test_a_pod_and_an_event_in_short():
    """The waiting reason is the state; a series counts its own."""
    status = {"phase": "Running", "containerStatuses": [
        {"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}  # fmt: skip
    pod = pod_of({"metadata": {"name": "p", "deletionTimestamp": "t"}, "spec": {"nodeName": "n"}, "status": status})
    assert (pod.state, pod.restarts, pod.node, pod.deleting) == ("CrashLoopBackOff", 3, "n", True)
    event = event_of({"eventTime": "t1", "series": {"count": 4, "lastObservedTime": "t2"}, "involvedObject": {}})
    assert (event.count, event.first_time, event.last_time) == (4, "t1", "t2")


@pytest.mark.parametrize(
    ("status", "observed", "is_ready"),
    [("True", 3, True), ("True", 2, False), ("True", None, False), ("False", 3, False)],
    ids=["the present spec", "the spec before", "of no spec", "no replica answers"],
)
def test_ready_is_of_the_present_spec(status, observed, is_ready):
    """The rule of `kubectl wait`: a True Ready of a lower generation is of pods that a rollout replaces."""
    row = {"type": "Ready", "status": status, "reason": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    rows = [{**row, **({"observedGeneration": observed} if observed else {})}]
    service = a_service("a")
    document = {**service, "metadata": {**service["metadata"], "generation": 3}, "status": {"conditions": rows}}
    assert service_of(document).is_ready() == is_ready
    assert not service_of(service).is_ready()
