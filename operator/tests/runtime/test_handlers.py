"""From events to keys: whose object it is, what is no news, and who hears of nodes and freed GPUs."""

from __future__ import annotations

import json

import kopf
import pytest
from windlass_api.names import SERVICE_LABEL
from windlass_operator.cluster.store import Store
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime import metrics
from windlass_operator.runtime.handlers import OURS, WATCHES, NodeSink, PodSink, Router, ShelfSink, register, streams

WAITING = Key("team-b", "waits")


class Queue:
    def __init__(self):
        self.events, self.waiting, self.working = [], set(), True

    def event(self, key):
        self.events.append(key)

    def asked(self, key):
        return key in self.waiting


@pytest.fixture
def router():
    return Router(Store(row.name for row in WATCHES), Queue(), lambda: {WAITING})


def an_object(version=1, name="x", labels=None, **rest):
    meta = {"name": name, "namespace": "team-a", "resourceVersion": str(version), "labels": labels or {}}
    return {"metadata": meta, **rest}


def test_an_llmservice_is_its_own_key(router):
    sink = ShelfSink("LLMService", router)
    assert sink.put(an_object(name="qwen")) == [("team-a", "qwen")]
    assert sink.drop(an_object(2, name="qwen")) == [("team-a", "qwen")]


def test_an_owned_object_leads_to_its_service_when_it_changes_and_when_it_goes(router):
    sink = ShelfSink("Deployment", router)
    ours = {SERVICE_LABEL: "qwen"}
    assert sink.put(an_object(labels=ours)) == [("team-a", "qwen")]
    assert sink.put(an_object(labels=ours)) == ()
    sink.keep(set(), 9)
    assert router.queue.events == [Key("team-a", "qwen")]


def test_a_key_whose_run_is_about_to_begin_is_not_asked_for_again(router):
    """The store has the object before that run begins."""
    sink, ours = ShelfSink("Deployment", router), {SERVICE_LABEL: "qwen"}
    router.queue.waiting = {Key("team-a", "qwen")}
    assert sink.put(an_object(labels=ours)) == []
    assert ("team-a", "x") in router.store.shelves["Deployment"].rows


def test_the_echo_of_our_own_write_is_no_event(router):
    item = an_object(7, labels={SERVICE_LABEL: "qwen"})
    router.store.shelves["Deployment"].answer(item)
    assert ShelfSink("Deployment", router).put(item) == ()


def a_node(version=1, gpus="8", beat="1"):
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
    status = {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [ready], "images": ["long"]}
    return {"metadata": {"name": "n1", "resourceVersion": str(version)}, "status": status}


def test_a_node_s_heartbeat_wakes_nobody(router):
    sink = NodeSink("Node", router)
    waits = [("team-b", "waits")]
    assert sink.put(a_node()) == waits
    changes = router.store.shelves["Node"].changes
    assert sink.put(a_node(2, beat="2")) == ()
    assert router.store.shelves["Node"].changes == changes, "all nodes would be read anew"
    assert (sink.put(a_node(3, gpus="7")), sink.drop(a_node(4))) == (waits, waits)


def test_a_node_keeps_only_what_planning_reads(router):
    NodeSink("Node", router).put(a_node())
    (node,) = router.store.shelves["Node"].find(None, {})
    assert sorted(node["status"]) == ["allocatable", "conditions"]


def test_a_taint_is_news_and_is_kept(router):
    """A plan depends on it; a service that waits for nodes is looked at."""
    sink, waits = NodeSink("Node", router), [("team-b", "waits")]
    sink.put(a_node())
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    assert sink.put({**a_node(2), "spec": {"taints": [taint]}}) == waits
    (node,) = router.store.shelves["Node"].find(None, {})
    assert node["spec"]["taints"] == [taint]


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


def a_pod(version, labels=None):
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    return an_object(version, labels=labels, spec={"nodeName": "n1", "containers": [limits]})


def test_everyone_s_pods_count_and_ours_alone_are_kept(router):
    """A pod that loses our label is no longer kept, and holds its GPUs all the same."""
    sink, mark = PodSink("Pod", router), dict([OURS.split("=")])
    sink.put(a_pod(1, mark))
    assert ("team-a", "x") in router.store.shelves["Pod"].rows
    sink.put(a_pod(2))
    assert router.store.shelves["Pod"].rows == {}
    assert router.claims.taken() == {"n1": 2}
    sink.keep(set(), 9)
    assert router.claims.taken() == {}


def test_each_kind_has_one_handler_and_each_scope_a_stream(router):
    """Nodes have no namespace, and so one stream."""
    registry, followed = kopf.OperatorRegistry(), streams(("a", "b"), router)
    register(registry, router)
    handlers = registry._watching.get_all_handlers()
    assert [handler.id for handler in handlers] == [row.name for row in WATCHES]
    assert len(followed) == 2 * len(WATCHES) - 1
    assert "/api/v1/nodes" in followed


async def test_a_handler_asks_for_the_keys_that_the_wire_found(router):
    registry, followed = kopf.OperatorRegistry(), streams(("team-a", "b"), router)
    register(registry, router)
    (handler,) = (one for one in registry._watching.get_all_handlers() if one.id == "LLMService")
    path = "/apis/serving.windlass.dev/v1alpha1/namespaces/team-a/llmservices"
    page = [json.dumps(an_object()).encode()]
    handed = json.loads(followed[path].take_page(page, 10, first=True, last=True))
    assert router.queue.events == []
    await handler.fn(event={"type": None, "object": handed}, namespace="team-a", memo=None)
    assert router.queue.events == [Key("team-a", "x")]
