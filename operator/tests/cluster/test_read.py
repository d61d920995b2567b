"""Events are asked for of pods that do not get on, and of no others: each ask makes the API server look through all."""

from __future__ import annotations

import pytest
from windlass_api.names import COMPONENT_LABEL, SERVER
from windlass_operator.cluster.kinds import Events, Jobs, Pods, StatefulSets
from windlass_operator.cluster.read import read_children
from windlass_operator.records.base import parse
from windlass_operator.records.pods import Event

PROBE = {"periodSeconds": 10, "failureThreshold": 6}
SET = {"metadata": {"name": "s", "uid": "s", "ownerReferences": [{"uid": "service", "controller": True}]}}
KILLING = {"type": "Normal", "reason": "Killing", "message": "failed startup probe", "lastTimestamp": "t"}


class OneKind:
    """A cluster that has one pod, and Events about whatever it is asked for."""

    def __init__(self, pod):
        self.pod, self.asked = pod, []

    async def get(self, *_):
        return None

    async def find(self, kind, _namespace, _labels=None, fields=None):
        if kind is Events:
            self.asked.append(fields)
            return [KILLING]
        return [SET] if kind is StatefulSets else []

    async def records(self, kind, shape, _namespace, _labels):
        return [parse(shape, self.pod)] if kind is Pods else []


def starting(**container):
    """A pod whose server has begun at noon and does not answer yet."""
    row = {"name": "server", "started": False, "restartCount": 0, **container}
    return {
        "metadata": {
            "name": "qwen-0",
            "uid": "u",
            "labels": {COMPONENT_LABEL: SERVER},
            "ownerReferences": [{"uid": "s", "controller": True}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "server", "startupProbe": PROBE}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-01-01T12:00:00Z"}}, **row}],
        },
    }


@pytest.mark.parametrize(
    ("pod", "now", "asked"),
    [
        (starting(), "2026-01-01T12:00:59Z", 0),
        (starting(), "2026-01-01T12:01:00Z", 1),
        (starting(restartCount=1), "2026-01-01T12:00:01Z", 1),
        (starting(started=True), "2026-01-01T12:00:01Z", 1),
        (starting(), "", 0),
    ],
    ids=["starts", "its probe has had all tries", "restarted", "answers no more", "the time is not known"],
)
async def test_events_are_read_of_what_does_not_get_on(pod, now, asked):
    cluster = OneKind(pod)
    children = await read_children(cluster, "team", "qwen", "uid", None, now)
    assert len(cluster.asked) == asked
    assert children.events == ((parse(Event, KILLING),) if asked else ())


DOWNLOAD_JOB = {"metadata": {"name": "qwen-download-0", "uid": "job"}}


class OneDownload(OneKind):
    """A cluster with a download Job, and perhaps a pod of it."""

    def __init__(self, pod, **job):
        super().__init__(pod)
        self.job = {**DOWNLOAD_JOB, **job}

    async def records(self, kind, shape, _namespace, labels):
        rows = {Jobs: self.job, Pods: self.pod}
        return [parse(shape, rows[kind])] if "download" in labels and rows[kind] else []


def a_download_pod(phase):
    meta = {"name": "p", "uid": "p", "ownerReferences": [{"uid": "job", "controller": True}]}
    return {"metadata": meta, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pod", "job", "asked"),
    [
        (None, {}, True),
        (a_download_pod("Failed"), {}, True),
        (a_download_pod("Running"), {}, False),
        (None, {"spec": {"suspend": True}}, False),
        (None, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, False),
    ],
    ids=["no pod", "its last pod has failed", "its pod runs", "told to end", "over"],
)
async def test_events_are_read_of_a_download_job_that_has_no_pod(pod, job, asked):
    """A refused pod is told nowhere else."""
    cluster = OneDownload(pod, **job)
    await read_children(cluster, "team", "qwen", "uid", {"download": "0"})
    assert ({"involvedObject.uid": "job"} in cluster.asked) is asked
