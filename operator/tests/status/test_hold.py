"""A crash loop that only a change mends is ended, remembered, and ended by a change."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest
from windlass_operator.records.base import Record, parse
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import Deployment
from windlass_operator.status import hold
from windlass_operator.status.children import Children
from windlass_operator.status.failure import Failure

NOW = "2026-01-01T00:00:00Z"


def a_failure(reason="BadFlag", count=2, code=2):
    return Failure(reason, "container server of pod qwen-0 ended: unknown flag --x", "server", code, "x", count)


def a_keeper(text):
    return parse(Record, {"metadata": {"annotations": {hold.HELD_ANNOTATION: text}}})


@pytest.mark.parametrize(
    ("failure", "held"),
    [
        (a_failure(), True),
        (a_failure(count=1), False),
        (a_failure("Unlicensed", 9, 4), False),
        (a_failure("CrashLoop", 9, 1), False),
        (a_failure("GpuOutOfMemory", 2, 1), True),
        (a_failure("SecretMissing", 9, None), False),
        (None, False),
    ],
    ids=["flag", "too early", "license", "unknown cause", "GPU memory", "no container ended", "none"],
)
def test_only_a_sure_cause_is_held_after_two_restarts(failure, held):
    assert (hold.decide("qwen", None, failure, "d", NOW) is not None) is held


def test_a_hold_says_how_to_go_on():
    message = hold.decide("qwen", None, a_failure(), "d", NOW).message
    assert message.startswith("stopped after 2 restarts: container server of pod qwen-0 ended: unknown flag --x; ")
    assert "kubectl annotate llm qwen serving.windlass.dev/retry=$(date +%s) --overwrite" in message


def test_a_group_is_given_up_after_its_own_number_of_restarts():
    lost = a_failure("MemberLost", 0, 101)
    assert hold.decide("qwen", None, lost, "d", NOW, (4, 5)) is None
    assert hold.decide("qwen", None, lost, "d", NOW, (5, 5)).message.startswith("stopped after 5 restarts: ")


def test_a_hold_outlives_the_operator_and_ends_with_a_change():
    first = hold.decide("qwen", None, a_failure(), "d", NOW)
    kept = hold.remembered(a_keeper(first.to_text()))
    assert kept == first
    assert hold.decide("qwen", kept, None, "d", "2027-01-01T00:00:00Z") == first
    assert hold.decide("qwen", kept, None, "another", NOW) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"reason": "x"})])
def test_what_is_not_ours_is_no_hold(text):
    assert hold.remembered(a_keeper(text)) is None


def test_the_digest_is_of_what_may_mend_it():
    raw = {"metadata": {}, "spec": {"replicas": 1, "args": ["--x"]}}
    same = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 3, "suspend": True, "args": ["--x"]}}
    assert hold.digest_of(raw) == hold.digest_of(same)
    for change in ({"spec": {"args": []}}, {"metadata": {"annotations": {hold.RETRY_ANNOTATION: "1"}}}):
        assert hold.digest_of({**raw, **change}) != hold.digest_of(raw)


MODEL = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
PLACE = {"prefixOffload": {"enabled": False}}


@pytest.mark.parametrize("model", [MODEL, {"id": 7}], ids=["valid", "not valid"])
def test_a_default_of_a_later_release_ends_no_hold(model):
    """The API server fills it into stored objects, in which nobody changed anything."""
    raw = {"metadata": {}, "spec": {"model": model, "engine": {"seed": 1}}}
    filled = {"metadata": {}, "spec": {"model": model, "engine": {"seed": 1, **PLACE}}}
    asked = {"metadata": {}, "spec": {"model": model, "engine": {"seed": 1, "prefixOffload": {"enabled": True}}}}
    assert hold.digest_of(raw) == hold.digest_of(filled)
    assert hold.digest_of(raw) != hold.digest_of(asked)


def test_a_hold_of_an_earlier_operator_stays():
    """Its digest is of the spec as it was stored then; the hold gets the digest of today."""
    stored = {"model": MODEL, "engine": {"seed": 1}, "replicas": 1}
    without = {key: value for key, value in stored.items() if key != "replicas"}
    old = hashlib.sha256(json.dumps([without, None], sort_keys=True).encode()).hexdigest()[:16]
    held = hold.decide("qwen", None, a_failure(), old, NOW)
    children = Children(service=a_keeper(held.to_text()))
    filled = {**stored, "engine": {"seed": 1, **PLACE}}
    raw = {"metadata": {"name": "qwen"}, "spec": filled}
    kept = hold.of_service(raw, children, 5, NOW)
    assert kept == dataclasses.replace(held, digest=hold.digest_of(raw))
    changed = {**raw, "spec": {**filled, "engine": {"seed": 2}}}
    assert hold.of_service(changed, children, 5, NOW) is None


def a_pod(name, template, down=True, ready=False, at="2026-01-01T00:00:00Z"):
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if down else {"running": {}}
    meta = {"name": name, "labels": {"pod-template-hash": template}, "creationTimestamp": at}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return parse(Pod, {"metadata": meta, "status": {"conditions": conditions, "containerStatuses": [{"state": state}]}})


def a_deployment(generation=2):
    status = {"observedGeneration": 2, "updatedReplicas": 1}
    return parse(Deployment, {"metadata": {"generation": generation}, "status": status})


NEWER = "2026-01-01T00:01:00Z"


def test_the_crashes_of_an_earlier_spec_do_not_count():
    old, new = a_pod("a", "1"), a_pod("b", "2", down=False, at=NEWER)
    assert hold.worth_judging(a_deployment(), [old, new]) == []
    assert hold.worth_judging(a_deployment(generation=3), [old]) == []
    assert hold.worth_judging(a_deployment(), [old, a_pod("b", "2", at=NEWER)])[0].name == "b"


def test_a_crash_beside_a_replica_that_answers_is_not_judged():
    rows = [a_pod("a", "1"), a_pod("b", "1", down=False, ready=True)]
    assert hold.worth_judging(a_deployment(), rows) == []
