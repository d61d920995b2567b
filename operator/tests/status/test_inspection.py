"""What the inspect Job found, and when a failed one runs again."""

from __future__ import annotations

import json

import pytest
from windlass_operator.records import base
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import Job
from windlass_operator.status import inspection
from windlass_operator.status.inspection import State, parse, retry_in_s
from windlass_operator.status.jobs import held_open
from windlass_sizing.model.facts import from_config

from .as_read import events

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256,
}  # fmt: skip
FACTS = from_config(CONFIG)
GOOD = json.dumps({"ok": True, "facts": FACTS.to_dict()})
BAD = json.dumps({"ok": False, "reason": "PathNotFound", "message": "it is not there"})
JOB = {"metadata": {"name": "j", "uid": "job-1", "creationTimestamp": "2026-01-01T00:00:00Z"}}


def read(job, pods, events, service=None):
    return inspection.read(
        base.parse(Job, job) if job else None,
        [base.parse(Pod, pod) for pod in pods],
        events,
        base.parse(base.Record, service) if service else None,
    )


def a_pod(message="", code=0, owner="job-1", **status):
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:01:00Z"}
    rows = [{"name": "inspect", "state": {"terminated": ended}}]
    owners = [{"uid": owner, "controller": True}]
    return {
        "metadata": {"name": "p", "uid": "p", "ownerReferences": owners},
        "status": {"containerStatuses": rows, **status},
    }


def test_no_job_has_not_begun():
    assert read(None, [], []).state is State.RUNNING


def test_the_facts_are_read_from_the_pod():
    found = read(JOB, [a_pod(GOOD)], [])
    assert (found.state, found.facts) == (State.FOUND, FACTS)
    assert found.finished_at == "2026-01-01T00:01:00Z"


def test_another_job_s_pod_says_nothing():
    assert read(JOB, [a_pod(GOOD, owner="job-0")], []).state is State.RUNNING


def test_the_finding_outlives_the_pod():
    """It is kept on the Job."""
    kept = {"serving.windlass.dev/inspect-result": BAD, "serving.windlass.dev/inspect-finished": "2026-01-01T00:01:00Z"}
    job = {"metadata": {**JOB["metadata"], "annotations": kept}}
    found = read(job, [], [])
    assert (found.state, found.reason, found.message) == (State.FAILED, "PathNotFound", "it is not there")


def test_the_service_keeps_the_finding_of_one_job():
    """With the plan, of the Job that it names; the Job's own word comes first."""
    kept = {"serving.windlass.dev/inspect-result": GOOD, "serving.windlass.dev/inspect-job": JOB["metadata"]["uid"]}
    service = {"metadata": {"annotations": kept}}
    assert read(JOB, [], [], service).state is State.FOUND
    assert read({"metadata": {**JOB["metadata"], "uid": "made anew"}}, [], [], service).state is State.RUNNING
    own = {"metadata": {**JOB["metadata"], "annotations": {"serving.windlass.dev/inspect-result": BAD}}}
    assert read(own, [], [], service).reason == "PathNotFound"
    assert read(None, [], [], service).state is State.RUNNING


@pytest.mark.parametrize(
    "text", ["", "Traceback …", "[]", "null", '{"ok": 1}', '{"ok": true}', '{"reason": "Sunspots"}']
)
def test_a_message_that_is_not_ours_is_a_failed_inspection(text):
    found = parse(text, "")
    assert (found.state, found.reason) == (State.FAILED, "InspectFailed")
    assert found.message


@pytest.mark.parametrize(
    ("wrong", "reason", "word"),
    [
        ({"base_path": "/etc"}, "InspectFailed", "base_path"),
        ({"hidden_size": "64"}, "InspectFailed", "hidden_size"),
        ({"is_adapter": 1}, "InspectFailed", "is_adapter"),
        ({"quantization_bits": float("nan")}, "InspectFailed", "quantization_bits"),
        ({"params": 10**30}, "ConfigImplausible", "params"),
        ({"draft": []}, "InspectFailed", "draft"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_facts_that_no_model_has_are_a_failed_inspection(wrong, reason, word):
    """The sentence names the annotation that is not believed; the Job runs again after its wait."""
    text = json.dumps({"ok": True, "facts": {**FACTS.to_dict(), **wrong}})
    job = {"kind": "Job", "metadata": {**JOB["metadata"], "annotations": {inspection.RESULT_ANNOTATION: text}}}
    found = read(job, [], [])
    assert (found.state, found.reason, found.facts) == (State.FAILED, reason, None)
    assert found.message.startswith(f"the annotation {inspection.RESULT_ANNOTATION} of Job j is not believed: ")
    assert word in found.message
    assert read(JOB, [a_pod(text)], []).message.startswith("the answer of the inspect Job is not believed: ")


def test_a_pod_that_failed_is_tried_again_by_the_job_first():
    assert read(JOB, [a_pod("oops", code=1)], []).state is State.RUNNING
    given_up = {**JOB, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    found = read(given_up, [a_pod("oops", code=1)], [])
    assert (found.state, "oops" in found.message) == (State.FAILED, True)


def test_a_pod_that_cannot_start_is_stuck_not_failed():
    """The kubelet goes on trying, so the Job is left alone."""
    rows = [{"name": "inspect", "image": "i", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    found = read(JOB, [a_pod() | {"status": {"containerStatuses": rows}}], [])
    assert (found.state, found.reason) == (State.STUCK, "ImagePullFailed")


@pytest.mark.parametrize(
    ("failing_since", "now", "left"),
    [
        ("", "2026-01-01T01:00:00Z", 60),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:00:20Z", 40),
        ("2026-01-01T00:55:00Z", "2026-01-01T01:00:00Z", 300),
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", 600),
        ("2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", 0),
    ],
    ids=["first", "waiting", "growing", "at most ten minutes", "due"],
)
def test_the_wait_grows_with_the_time_of_failing(failing_since, now, left):
    assert retry_in_s(parse(BAD, "2026-01-01T01:00:00Z"), failing_since, now) == left


REFUSED = {
    "quota": ("failed quota: team: must specify limits.cpu for: x", "QuotaExceeded", True),
    "limit range": ("must be less than or equal to cpu limit of 10m", "LimitRangeExceeded", True),
    "pod security": (
        'violates PodSecurity "restricted:latest": restricted volume types',
        "PodSecurityForbidden",
        False,
    ),
}


@pytest.mark.parametrize(("words", "reason", "by_size"), REFUSED.values(), ids=REFUSED.keys())
def test_a_job_whose_pods_are_refused_is_stuck(words, reason, by_size):
    """The API server's sentence, and where requests and limits matter, the chart's value that sets them."""
    event = {"reason": "FailedCreate", "message": f"Error creating: {words}", "involvedObject": {"uid": "job-1"}}
    found = read(JOB, [], events(event))
    assert (found.state, found.reason) == (State.STUCK, reason)
    assert found.message.startswith(f"Error creating: {words}")
    assert ("the chart's value inspect.resources says" in found.message) is by_size
    other = {**event, "involvedObject": {"uid": "job-2"}}
    assert read(JOB, [], events(other)).state is State.RUNNING


@pytest.mark.parametrize(("code", "state"), [(0, State.FOUND), (137, State.RUNNING)])
def test_a_pod_that_is_called_running_for_a_moment_longer_is_held_open_by_nobody(code, state):
    """The kubelet tells the phase after the container's end: a failed one is still the Job's to try again."""
    pod = a_pod(GOOD, code=code, phase="Running")
    assert read(JOB, [pod], []).state is state
    assert not held_open([base.parse(Pod, pod)], "inspect")


def test_an_injected_container_does_not_keep_an_inspection_from_its_end():
    """A failed one is not waited for until the Job's deadline; one that ended by itself is no answer."""
    proxy = {"name": "a-proxy", "state": {"running": {"startedAt": "t"}}}
    ended = {"name": "a-proxy", "state": {"terminated": {"exitCode": 0, "message": "bye"}}}
    for row, own, state in (
        (proxy, a_pod(GOOD, phase="Running"), State.FOUND),
        (proxy, a_pod("killed", code=137, phase="Running"), State.FAILED),
        (ended, a_pod("killed", code=137, phase="Failed"), State.RUNNING),
    ):
        own["status"]["containerStatuses"].insert(0, row)
        assert read(JOB, [own], []).state is state
    running = a_pod(phase="Running")
    running["status"]["containerStatuses"] = [ended, {"name": "inspect", "state": {"running": {"startedAt": "t"}}}]
    assert read(JOB, [running], []).state is State.RUNNING
