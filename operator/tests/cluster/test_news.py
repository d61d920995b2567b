"""No change by another is lost: whatever order events and answers come in, a run that began later has seen it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass_api.objects.claims import Claims
from windlass_operator.cluster.apply import beside
from windlass_operator.cluster.kinds import Deployments
from windlass_operator.cluster.store import Store
from windlass_operator.cluster.stored import StoredCluster
from windlass_operator.cluster.streams import KEYS, Stream, Watched
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime.handlers import WATCHES, Router, ShelfSink
from windlass_operator.runtime.queue import Limits, WorkQueue

PLACE, KEY = ("team-a", "qwen"), Key("team-a", "qwen")
LABELS = {"serving.windlass.dev/service": "qwen"}
STEPS = ("another", "another's field of ours", "write", "write of the same", "line", "answer", "kopf", "run")


class World:
    """One object at an API server: the lines of its watch, answers under way, kopf's queue, the runs of its key."""

    def __init__(self):
        self.now, self.version = 0.0, 10
        self.live = self.an_object(ours=0, theirs=0)
        self.lines, self.answers, self.handed = [], [], []
        self.queue = WorkQueue(Limits(0.0), clock=lambda: self.now)
        self.queue._working = 1
        store = Store(row.name for row in WATCHES)
        self.router = Router(store, self.queue, set)
        self.stream = Stream(Watched(Deployments), ShelfSink("Deployment", self.router))
        self.cluster = StoredCluster(None, store, Claims(), self.router.written)
        self.shelf = store.shelves["Deployment"]
        self.stream.take_page([json.dumps(self.live).encode()], 10, first=True, last=True)
        self.queue.event(KEY)
        self.run()

    def an_object(self, **spec):
        meta = {"name": "qwen", "namespace": "team-a", "resourceVersion": str(self.version), "labels": LABELS}
        return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta, "spec": spec}

    def store(self, **spec):
        """What the API server makes of a write; one that changes nothing has no new version and no line."""
        if {**self.live["spec"], **spec} != self.live["spec"]:
            self.version += 1
            self.live = self.an_object(**{**self.live["spec"], **spec})
            self.lines.append(json.dumps(self.live).encode())

    def write(self, ours):
        wanted = {**self.an_object(ours=ours), "metadata": {"name": "qwen", "namespace": "team-a"}}
        self.store(ours=ours)
        self.answers.append((wanted, self.live))

    def run(self):
        """A run of the key begins, and reads the store."""
        if self.queue._schedule.take(self.now) is not None:
            self.queue._asked.pop(KEY, None)
            self.seen = self.shelf.get(PLACE)["spec"]
            self.queue._schedule.succeed(KEY, self.now, None)

    def step(self, name, number):
        self.now += 1.0
        if name == "another":
            self.store(theirs=number)
        elif name == "another's field of ours":
            self.store(ours=-number)
        elif name.startswith("write"):
            self.write(number if name == "write" else self.live["spec"]["ours"])
        elif name == "line" and self.lines:
            self.handed.append(self.stream.take("MODIFIED", self.lines.pop(0)))
        elif name == "answer" and self.answers:
            self.cluster._kept(*self.answers.pop(0))
        elif name == "kopf" and self.handed:
            if (handed := self.handed.pop(0)) is not None:
                self.router.ask(json.loads(handed)[KEYS])
        elif name == "run":
            self.run()


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 3)), max_size=30))
def test_every_change_by_another_is_seen_by_a_later_run(steps):
    """At the end everything under way arrives, and the last run has seen what others wrote."""
    world = World()
    for name, number in steps:
        world.step(name, number)
    while world.lines or world.answers or world.handed:
        for name in ("answer", "line", "kopf"):
            world.step(name, 0)
    world.step("run", 0)
    assert world.shelf.get(PLACE)["spec"] == world.live["spec"]
    assert world.seen["theirs"] == world.live["spec"]["theirs"]


@pytest.mark.parametrize("order", [("answer", "line", "line"), ("line", "answer", "line")])
def test_another_s_change_below_our_own_version_is_seen(order):
    """Another wrote just before us: the answer holds its change, and may come before its event."""
    world = World()
    world.step("another", 7)
    world.step("write", 1)
    for name in (*order, "kopf", "kopf", "run"):
        world.step(name, 0)
    assert world.seen["theirs"] == 7


def a_service(version, labels=(), **fields):
    meta = {"name": "qwen", "namespace": "team-a", "resourceVersion": str(version), "generation": version}
    meta |= {"labels": dict(labels)} if labels else {}
    return {"kind": "LLMService", "apiVersion": "serving.windlass.dev/v1alpha1", "metadata": meta, **fields}


OLD, NEW = {"ready": "0/1", "failure": {"reason": "x"}}, {"ready": "1/1", "plan": {"gpus": 1}}


@pytest.mark.parametrize(
    ("before", "after", "asks"),
    [
        pytest.param(a_service(2), a_service(3, status=NEW), False, id="the first status"),
        pytest.param(a_service(2, status=OLD), a_service(3, status=NEW), False, id="fields come and go"),
        pytest.param(a_service(2, spec={"a": 1}), a_service(4, spec={"a": 2}, status=NEW), True, id="an edited spec"),
        pytest.param(a_service(2), a_service(4, {"a": "b"}, status=NEW), True, id="a new label"),
        pytest.param(a_service(2, {"a": "b"}), a_service(4, status=NEW), True, id="a label that is gone"),
    ],
)
def test_the_answer_to_a_status_asks_for_a_reconcile_only_when_another_wrote(before, after, asks):
    """Each needless reconcile of a thousand services costs seconds of a processor."""
    store, asked = Store(row.name for row in WATCHES), []
    store.shelves["LLMService"].put(before)
    meta = {"name": "qwen", "namespace": "team-a"}
    wrote = {"kind": "LLMService", "apiVersion": before["apiVersion"], "metadata": meta, "status": NEW}
    StoredCluster(None, store, Claims(), lambda *what: asked.append(what[:2]))._kept(wrote, after)
    assert asked == ([("LLMService", PLACE)] if asks else [])


def test_rows_and_fields_that_a_write_adds_are_not_another_s():
    """What another adds or takes away beside them is."""
    own, theirs = {"port": 1, "name": "ours"}, {"port": 2, "protocol": "TCP", "name": "theirs"}
    wrote = {"metadata": {"annotations": {"ours": "1"}}, "spec": {"ports": [own]}}
    plain = {"metadata": {}, "spec": {"ports": [theirs]}}
    ours = {"metadata": {"annotations": {"ours": "1"}}, "spec": {"ports": [own, theirs]}}
    assert beside(ours, wrote) == beside(plain, wrote)
    assert beside({**ours, "spec": {"ports": [own]}}, wrote) != beside(plain, wrote)
    assert beside({**ours, "metadata": {"annotations": {"ours": "1", "theirs": "2"}}}, wrote) != beside(plain, wrote)


def test_the_echo_of_our_own_write_passes_kopf_by():
    world = World()
    for name in ("write", "answer", "line"):
        world.step(name, 5)
    assert world.handed == [None]
