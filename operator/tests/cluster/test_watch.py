"""A watch: pages, events, bookmarks, 410, broken connections, an API that nobody serves; and whether it lives."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from windlass_operator.cluster import watch as module
from windlass_operator.cluster.kinds import HTTPRoutes, Jobs
from windlass_operator.cluster.rest import StatusError
from windlass_operator.cluster.watch import SILENCE_S, Pulse, Watch, Watched


def item(name, version):
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version)}}


def event(type_, name, version):
    return json.dumps({"type": type_, "object": item(name, version)}).encode()


class Sink:
    def __init__(self):
        self.seen = []

    def put(self, item):
        self.seen.append(("put", item["metadata"]["name"]))

    def drop(self, item):
        self.seen.append(("drop", item["metadata"]["name"]))

    def keep(self, places, version):
        self.seen.append(("keep", sorted(name for _, name in places), version))

    def passed(self, version):
        self.seen.append(("passed", version))


class Server:
    """Answers lists and streams from a script; after its end a stream is silent."""

    def __init__(self, pages, streams):
        self.pages, self.streams, self.asked, self.done = list(pages), list(streams), [], asyncio.Event()

    async def read(self, path, params, *_):
        self.asked.append(("list", params.get("continue", "")))
        page = self.pages.pop(0)
        if isinstance(page, Exception):
            raise page
        return json.dumps(page).encode()

    async def lines(self, path, params, *_):
        self.asked.append(("watch", params["resourceVersion"]))
        if not self.streams:
            self.done.set()
            await asyncio.Event().wait()
        for line in self.streams.pop(0):
            if isinstance(line, Exception):
                raise line
            yield line


def a_page(names, version, following=""):
    meta = {"resourceVersion": str(version), **({"continue": following} if following else {})}
    return {"metadata": meta, "items": [item(name, 1) for name in names]}


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    for name in ("PAUSE_S", "BACKOFF_FIRST_S", "ABSENT_AGAIN_S"):
        monkeypatch.setattr(module, name, 0.001)


async def followed(server, row=None):
    """Run the watch until the server's script is at its end."""
    sink = Sink()
    watch = Watch(server, row or Watched(Jobs, "a=b"), "a", sink)
    task = asyncio.create_task(watch.run())
    await asyncio.wait_for(server.done.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return watch, sink


async def test_a_list_in_pages_then_events():
    server = Server(
        [a_page(["x"], 10, "more"), a_page(["y"], 10)],
        [[event("ADDED", "z", 11), event("DELETED", "x", 12), event("BOOKMARK", "", 15)]],
    )
    watch, sink = await followed(server)
    assert sink.seen == [
        ("put", "x"), ("put", "y"), ("keep", ["x", "y"], 10), ("put", "z"), ("drop", "x"), ("passed", 15),
    ]  # fmt: skip
    assert server.asked == [("list", ""), ("list", "more"), ("watch", "10"), ("watch", "15")]
    assert watch.pulse.synced


async def test_a_forgotten_version_means_a_new_list():
    gone = json.dumps({"type": "ERROR", "object": {"code": 410, "message": "too old"}}).encode()
    server = Server([a_page(["x"], 10), a_page([], 20)], [[gone]])
    _, sink = await followed(server)
    assert sink.seen[-1] == ("keep", [], 20)
    assert server.asked[-1] == ("watch", "20")


async def test_a_refused_version_means_a_new_list():
    server = Server([a_page([], 10), a_page([], 20)], [[StatusError(410, b"{}")]])
    await followed(server)
    assert server.asked[-2:] == [("list", ""), ("watch", "20")]


async def test_a_broken_connection_goes_on_where_it_was():
    server = Server([a_page([], 10)], [[event("ADDED", "x", 11), aiohttp.ClientPayloadError("cut")]])
    await followed(server)
    assert server.asked == [("list", ""), ("watch", "10"), ("watch", "11")]


async def test_a_list_that_fails_is_tried_again():
    server = Server([TimeoutError(), StatusError(500, b""), a_page(["x"], 10)], [])
    watch, sink = await followed(server)
    assert sink.seen == [("put", "x"), ("keep", ["x"], 10)]
    assert watch.pulse.failing_since is None


async def test_an_api_that_nobody_serves_holds_up_nobody_and_is_asked_for_again():
    server = Server([StatusError(404, b"404 page not found"), a_page(["x"], 10)], [])
    _, sink = await followed(server, Watched(HTTPRoutes, optional=True))
    assert sink.seen == [("keep", [], 0), ("put", "x"), ("keep", ["x"], 10)]


async def test_an_api_that_must_be_there_is_a_failure():
    server = Server([StatusError(403, b"forbidden"), a_page([], 10)], [])
    _, sink = await followed(server)
    assert sink.seen == [("keep", [], 10)]


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
def test_a_watch_lives_while_it_is_heard_of(pulse, alive):
    assert pulse.alive(100.0, 30.0) is alive
