"""A stream: what of a list is still on the way, what an earlier one left behind, an API that nobody serves, a pulse."""

from __future__ import annotations

import json

import pytest
from windlass_operator.cluster.kinds import HTTPRoutes, Jobs
from windlass_operator.cluster.streams import SILENCE_S, Pulse, Stream, Watched


def item(name, version):
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version)}}


def event(type_, name, version):
    return type_, json.dumps(item(name, version)).encode()


def give(stream, *events):
    return [stream.take(type_, raw) for type_, raw in events]


def listed(stream, *names, version=10, first=True, last=True):
    raws = [event("", name, 3)[1] for name in names]
    return stream.take_page(raws, version, first=first, last=last)


class Sink:
    def __init__(self):
        self.seen = []

    def put(self, item):
        if item["metadata"]["name"] == "broken":
            raise ValueError("broken")
        self.seen.append(("put", item["metadata"]["name"]))
        return [("a", "key")]

    def drop(self, item):
        self.seen.append(("drop", item["metadata"]["name"]))
        return ()

    def keep(self, places, version):
        self.seen.append(("keep", sorted(name for _, name in places), version))


@pytest.fixture
def stream():
    return Stream(Watched(Jobs, "a=b"), Sink(), clock=lambda: 100.0)


def test_a_list_in_pages_then_events(stream):
    listed(stream, "x", first=True, last=False)
    assert not stream.pulse.synced
    listed(stream, "y", first=False, last=True)
    assert stream.pulse.synced
    give(stream, event("ADDED", "z", 11))
    give(stream, event("DELETED", "x", 12))
    assert stream.sink.seen == [("put", "x"), ("put", "y"), ("keep", ["x", "y"], 10), ("put", "z"), ("drop", "x")]


def test_kopf_sees_one_object_a_stream(stream):
    """A page is one item with all its keys, an event one with its own; both are the stream's object, at a version."""
    stream.sink.put = lambda item: [("a", item["metadata"]["name"]), ("a", "shared")]
    page = listed(stream, "x", "y", "x", last=False)
    (line,) = give(stream, event("ADDED", "z", 11))
    handed = [json.loads(one) for one in (page, line)]
    assert [one["keys"] for one in handed] == [
        [["a", "shared"], ["a", "x"], ["a", "y"]],
        [["a", "z"], ["a", "shared"]],
    ]
    assert [one["metadata"] for one in handed] == [
        {"name": "Job", "uid": "Job", "resourceVersion": version} for version in ("10", "11")
    ]


def test_an_empty_list_is_a_list(stream):
    stream.page(set(), 10, first=True, last=True)
    assert stream.pulse.synced


def test_what_is_older_than_the_last_list_says_nothing(stream):
    stream.page(set(), 20, first=True, last=True)
    assert give(stream, event("MODIFIED", "x", 19)) == [None]
    assert stream.sink.seen == [("keep", [], 20)]


def test_what_a_user_wrote_is_never_kopfs_to_decode(stream):
    """Nesting that no recursive decoder survives is a stub here, and a name and keys for kopf."""
    stream.page(set(), 10, first=True, last=True)
    nested = json.dumps(item("deep", 11)).encode()[:-1] + b', "spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    handed = json.loads(stream.take("ADDED", nested))
    assert (sorted(handed), handed["keys"]) == (["keys", "metadata"], [["a", "key"]])
    assert stream.sink.seen[-1] == ("put", "deep")


def test_what_concerns_no_key_is_nothing_for_kopf(stream):
    """The end of an object, too: kopf keeps nothing of it that it would have to forget."""
    stream.sink.put = lambda _: ()
    assert listed(stream, "x") is None
    assert give(stream, event("MODIFIED", "x", 11), event("DELETED", "x", 12)) == [None, None]


def test_a_broken_object_stops_nobody_and_is_logged_once(stream, caplog):
    listed(stream, "broken", "x")
    assert give(stream, event("MODIFIED", "broken", 11)) == [None]
    assert stream.pulse.synced
    assert stream.sink.seen == [("put", "x"), ("keep", ["broken", "x"], 10)]
    assert [record.getMessage() for record in caplog.records] == [
        "Job ('a', 'broken') cannot be read; it is left out"
    ]  # fmt: skip


def test_an_api_that_nobody_serves_holds_up_nobody():
    """Until it is served."""
    stream = Stream(Watched(HTTPRoutes, optional=True), Sink())
    stream.failed("404 page not found", 404)
    assert stream.pulse.alive(0.0, 30.0)
    assert stream.sink.seen == [("keep", [], 0)]
    stream.page({("a", "x")}, 10, first=True, last=True)
    assert not stream.pulse.absent


def test_an_api_that_must_be_there_is_a_failure(stream, caplog):
    """It is said once, and its end as well."""
    assert [stream.failed("forbidden", 403) for _ in range(3)] == [1, 2, 3]
    assert not stream.pulse.absent
    assert stream.pulse.failing_since == 100.0
    stream.heard()
    assert stream.pulse.failing_since is None
    assert [record.getMessage() for record in caplog.records] == ["the watch of Job fails: forbidden"]


@pytest.mark.parametrize(
    ("pulse", "alive"),
    [
        (Pulse(), False),
        (Pulse(synced=True, heard=100.0), True),
        (Pulse(synced=True, heard=100.0 - SILENCE_S - 31), False),
        (Pulse(synced=True, heard=100.0, failing_since=71.0), True),
        (Pulse(synced=True, heard=100.0, failing_since=69.0), False),
        (Pulse(absent=True), True),
    ],
    ids=["not listed", "fresh", "silent", "failing for a moment", "failing", "nobody serves it"],
)
def test_a_stream_lives_while_it_is_heard_of(pulse, alive):
    assert pulse.alive(100.0, 30.0) is alive
