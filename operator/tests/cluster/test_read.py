"""Events are asked for of pods that do not get on, and of no others: each ask makes the API server look through all."""

from __future__ import annotations

import pytest
from windlass_api.names import COMPONENT_LABEL, SERVER
from windlass_operator.cluster.kinds import Events, Pods, StatefulSets
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
