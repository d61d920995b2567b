"""What the download Job says, and what becomes of it in the status."""

from __future__ import annotations

import json

import pytest
from windlass_operator.records import base
from windlass_operator.records.pods import Pod
from windlass_operator.records.workloads import Job
from windlass_operator.status import download
from windlass_operator.status.download import State, finished, line, parse, progress, retry_in_s, trouble

from .as_read import events

DONE = {"name": "qwen/Qwen2", "commit": "a" * 40, "files": 11, "bytesTotal": 15 << 30, "bytesFetched": 5}
GOOD = json.dumps({"ok": True, "download": DONE})
BAD = json.dumps({"ok": False, "reason": "DownloadUnauthorized", "message": "the hub wants a token"})
AGAIN = json.dumps({"ok": False, "reason": "HubUnreachable", "message": "no answer from the hub; the Job tries again"})
JOB = {"metadata": {"name": "j", "uid": "job-1", "creationTimestamp": "2026-01-01T00:00:00Z"}}
GIVEN_UP = {**JOB, "status": {"conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "t"}]}}
FACTS = {
    "version": 1,
    "phase": "download",
    "download": {
        "bytesDone": 3 << 30,
        "bytesTotal": 15 << 30,
        "bytesPerSecond": 80 << 20,
        "remainingSeconds": 154,
        "filesDone": 3,
        "filesTotal": 11,
        "file": "model-1.safetensors",
    },
}


def read(job, pods, events):
    return download.read(base.parse(Job, job) if job else None, [base.parse(Pod, pod) for pod in pods], events)


def a_pod(message="", code=0, owner="job-1", created="2026-01-01T00:00:00Z", **state):
    ended = {"terminated": {"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:01:00Z"}}
    rows = [{"name": "download", "image": "i", "state": state or ended}]
    owners = [{"uid": owner, "controller": True}]
    meta = {"name": f"p-{created}", "uid": "p", "ownerReferences": owners, "creationTimestamp": created}
    return {"metadata": meta, "status": {"containerStatuses": rows}}


def test_no_job_has_not_begun():
    assert read(None, [], []).state is State.RUNNING


def test_a_running_pod_is_a_running_download():
    found = read(JOB, [a_pod(running={"startedAt": "t"})], [])
    assert (found.state, found.reason) == (State.RUNNING, "Downloading")


def test_a_finished_one_says_what_lies_there():
    found = read(JOB, [a_pod(GOOD)], [])
    assert (found.state, found.reason) == (State.DONE, "Downloaded")
    assert found.message == "qwen/Qwen2 at aaaaaaaaaaaa: 11 files, 15.00 GiB"
    assert found.finished_at == "2026-01-01T00:01:00Z"


def test_a_final_no_needs_no_second_try():
    """It ends with 0: another try cannot help."""
    found = read(JOB, [a_pod(BAD)], [])
    assert (found.state, found.reason, found.message) == (State.FAILED, "DownloadUnauthorized", "the hub wants a token")


def test_a_trouble_that_may_pass_is_reported_while_the_job_tries_again():
    found = read(JOB, [a_pod(AGAIN, code=1)], [])
    assert (found.state, found.reason) == (State.RUNNING, "Downloading")
    assert "no answer from the hub" in found.message


def test_a_pod_that_was_killed_is_reported_with_its_cause():
    killed = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:01:00Z"}
    found = read(JOB, [a_pod(terminated=killed)], [])
    assert (found.state, "OOMKilled" in found.message) == (State.RUNNING, True)


def test_after_its_last_try_it_has_failed():
    found = read(GIVEN_UP, [a_pod(AGAIN, code=1)], [])
    assert (found.state, found.reason) == (State.FAILED, "HubUnreachable")


def test_a_job_whose_pods_are_gone_has_failed():
    found = read(GIVEN_UP, [], [])
    assert (found.state, found.reason, found.finished_at) == (State.FAILED, "DownloadFailed", "t")


def test_the_end_outlives_the_pod():
    kept = {download.RESULT_ANNOTATION: GOOD, download.FINISHED_ANNOTATION: "2026-01-01T00:01:00Z"}
    found = read({"metadata": {**JOB["metadata"], "annotations": kept}}, [], [])
    assert (found.state, found.finished_at) == (State.DONE, "2026-01-01T00:01:00Z")


def test_another_job_s_pod_says_nothing():
    assert read(JOB, [a_pod(GOOD, owner="job-0")], []).state is State.RUNNING


def test_a_pod_that_cannot_start_is_stuck():
    found = read(JOB, [a_pod(waiting={"reason": "ImagePullBackOff"})], [])
    assert (found.state, found.reason) == (State.STUCK, "ImagePullFailed")


@pytest.mark.parametrize(
    "text", ["", "Traceback …", "[]", "null", '{"ok": 1}', '{"ok": true}', '{"reason": "Sunspots"}']
)
def test_a_message_that_is_not_ours_is_a_failed_download(text):
    found = parse(text, "")
    assert (found.state, found.reason) == (State.FAILED, "DownloadFailed")
    assert found.message


@pytest.mark.parametrize(
    ("failing_since", "now", "left"),
    [
        ("", "2026-01-01T01:00:00Z", 60),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:00:20Z", 40),
        ("2026-01-01T00:55:00Z", "2026-01-01T01:00:00Z", 300),
        ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", 1800),
        ("2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z", 0),
    ],
    ids=["first", "waiting", "growing", "at most half an hour", "due"],
)
def test_the_wait_grows_with_the_time_of_failing(failing_since, now, left):
    assert retry_in_s(parse(BAD, "2026-01-01T01:00:00Z"), failing_since, now) == left


def test_facts_become_integers():
    counts = {"bytesDone": 3 << 30, "bytesTotal": 15 << 30, "bytesPerSecond": 80 << 20, "remainingSeconds": 154}
    assert progress(FACTS) == counts
    assert line(counts) == "3.00 of 15.00 GiB (20 %), 80 MiB/s, 3 min left"


@pytest.mark.parametrize(
    "facts",
    [None, [], "x", {}, {"version": 2}, {"version": 1, "download": 5}, {"version": 1, "download": {"bytesTotal": "9"}}],
)
def test_facts_that_are_not_ours_are_none(facts):
    assert progress(facts) == {}
    assert trouble(facts) == ""
    assert line(progress(facts)) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("no answer\nfrom the hub", "no answer from the hub"), (5, ""), (None, ""), ("x" * 3000, f"…{'x' * 1024}")],
    ids=["a sentence", "a number", "nothing", "a long one"],
)
def test_a_trouble_is_one_short_line(text, words):
    """Anybody may answer on a pod's port."""
    assert trouble({"version": 1, "download": {"trouble": text}}) == words


@pytest.mark.parametrize("value", [-1, 1.5, True, None, "5", 10**30])
def test_no_number_of_a_pod_breaks_the_status(value):
    """The CRD wants integers from 0 to 2**62; anybody may answer on a pod's port."""
    told = {"bytesTotal": 100, "bytesDone": value, "bytesPerSecond": value, "remainingSeconds": value}
    counts = progress({"version": 1, "download": told})
    assert all(type(count) is int and 0 <= count <= 2**62 for count in counts.values())
    assert counts["bytesDone"] <= 100
    assert counts.get("remainingSeconds", 0) < 2**31


def test_what_is_not_known_is_left_out():
    told = progress({"version": 1, "download": {"bytesTotal": 100, "bytesDone": 5, "bytesPerSecond": 0}})
    assert told == {"bytesDone": 5, "bytesTotal": 100, "bytesPerSecond": 0}


def test_a_finished_download_is_full():
    assert finished(DONE) == {
        "bytesDone": 15 << 30,
        "bytesTotal": 15 << 30,
        "bytesPerSecond": 0,
        "remainingSeconds": 0,
    }


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
    assert ("the chart's value download.resources says" in found.message) is by_size
    other = {**event, "involvedObject": {"uid": "job-2"}}
    assert read(JOB, [], events(other)).state is State.RUNNING


def test_a_job_whose_next_pod_is_refused_is_stuck():
    """Only a refusal after its last pod counts: an earlier one was overcome."""
    failed = a_pod(AGAIN, code=1, created="2026-01-01T01:00:00Z")
    failed["status"]["phase"] = "Failed"
    event = {"reason": "FailedCreate", "message": "exceeded quota: q", "involvedObject": {"uid": "job-1"}}
    assert read(JOB, [failed], events({**event, "lastTimestamp": "2026-01-01T00:30:00Z"})).state is State.RUNNING
    found = read(JOB, [failed], events({**event, "lastTimestamp": "2026-01-01T01:30:00Z"}))
    assert (found.state, found.reason) == (State.STUCK, "QuotaExceeded")


PROXY = {"name": "mesh-proxy", "image": "i", "state": {"running": {"startedAt": "t"}}}
ENDED_PROXY = {"name": "a-proxy", "image": "i", "state": {"terminated": {"exitCode": 0, "message": "bye"}}}


def beside(pod, *rows, phase="Running"):
    """The pod with injected containers, which Kubernetes lists in any order."""
    pod["status"] = {"phase": phase, "containerStatuses": [*rows, *pod["status"]["containerStatuses"]]}
    return pod


def test_an_injected_container_does_not_keep_a_download_from_its_end():
    """The Job's own container decides: with 0 it is done, else it has failed, as the Job controller sees no end."""
    assert read(JOB, [beside(a_pod(GOOD), PROXY)], []).state is State.DONE
    found = read(JOB, [beside(a_pod(AGAIN, code=1), PROXY)], [])
    assert (found.state, found.reason) == (State.FAILED, "HubUnreachable")
    assert read(JOB, [beside(a_pod(AGAIN, code=1), ENDED_PROXY, phase="Failed")], []).state is State.RUNNING


def test_an_injected_container_that_ended_says_nothing_of_the_download():
    found = read(JOB, [beside(a_pod(running={"startedAt": "t"}), ENDED_PROXY)], [])
    assert (found.state, found.message) == (State.RUNNING, "a Job fetches the model from its hub")
