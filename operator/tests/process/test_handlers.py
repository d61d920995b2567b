"""From events to keys: whose object it is, what is no news, and who hears of nodes and freed GPUs."""

from __future__ import annotations

import pytest
from windlass_operator import metrics
from windlass_operator.cluster.store import Store
from windlass_operator.handlers import WATCHES, NodeSink, Router, ShelfSink
from windlass_operator.look import Key
from windlass_operator.manifests.metadata import SERVICE_LABEL

WAITING = Key("team-b", "waits")


class Queue:
    def __init__(self):
        self.events = []

    def event(self, key):
        self.events.append(key)


@pytest.fixture
def router():
    return Router(Store(row.name for row in WATCHES), Queue(), lambda: {WAITING})


def an_object(version=1, name="x", labels=None, **rest):
    meta = {"name": name, "namespace": "team-a", "resourceVersion": str(version), "labels": labels or {}}
    return {"metadata": meta, **rest}


def test_an_llmservice_is_its_own_key(router):
    sink = ShelfSink("LLMService", router)
    sink.put(an_object(name="qwen"))
    sink.drop(an_object(2, name="qwen"))
    assert router.queue.events == [Key("team-a", "qwen")] * 2


def test_an_owned_object_leads_to_its_service_when_it_changes_and_when_it_goes(router):
    sink = ShelfSink("Deployment", router)
    ours = {SERVICE_LABEL: "qwen"}
    sink.put(an_object(labels=ours))
    sink.put(an_object(labels=ours))
    sink.keep(set(), 9)
    assert router.queue.events == [Key("team-a", "qwen")] * 2


def test_the_echo_of_our_own_write_is_no_event(router):
    item = an_object(7, labels={SERVICE_LABEL: "qwen"})
    router.store.shelves["Deployment"].answer(item)
    ShelfSink("Deployment", router).put(item)
    assert router.queue.events == []


def a_node(version=1, gpus="8", beat="1"):
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
    status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [ready], "images": ["long"]}
    return {"metadata": {"name": "n1", "resourceVersion": str(version)}, "status": status}


def test_a_node_s_heartbeat_wakes_nobody(router):
    sink = NodeSink("Node", router)
    sink.put(a_node())
    changes = router.store.shelves["Node"].changes
    sink.put(a_node(2, beat="2"))
    assert router.queue.events == [WAITING]
    assert router.store.shelves["Node"].changes == changes, "all nodes would be read anew"
    sink.put(a_node(3, gpus="7"))
    sink.drop(a_node(4))
    assert router.queue.events == [WAITING] * 3


def test_a_node_keeps_only_what_planning_reads(router):
    NodeSink("Node", router).put(a_node())
    (node,) = router.store.shelves["Node"].find(None, {})
    assert sorted(node["status"]) == ["allocatable", "conditions"]


def test_services_are_counted_by_their_reason(router):
    def ready(reason, version):
        return an_object(version, name="qwen", status={"conditions": [{"type": "Ready", "reason": reason}]})

    count = lambda reason: metrics.LLMSERVICES.labels(reason)._value.get()  # noqa: E731
    sink, before = ShelfSink("LLMService", router), count("Starting")
    sink.put(ready("Starting", 1))
    assert count("Starting") == before + 1
    sink.put(ready("Running", 2))
    sink.drop(ready("Running", 3))
    assert (count("Starting"), count("Running")) == (before, 0)
