"""kopf's own list and watch through the wire, on a real socket: bounds, pages, failures that it goes on from."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import kopf
import pytest
from aiohttp import web
from kopf._cogs.clients import auth, watching
from kopf._cogs.structs import credentials, references
from windlass_operator.cluster import wire as module
from windlass_operator.cluster.kinds import Jobs, ReplicaSets
from windlass_operator.cluster.rest import ANSWER_BYTES_MAX
from windlass_operator.cluster.streams import Stream, Watched
from windlass_operator.cluster.wire import LIST_ANEW, Wire
from windlass_testbed.waiting import HANG_S

JOBS, SETS = "/apis/batch/v1/jobs", "/apis/apps/v1/replicasets"


def item(name, version=1, **rest):
    return {"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": str(version)}, **rest}


def a_page(items, version, following=""):
    meta = {"resourceVersion": str(version), **({"continue": following} if following else {})}
    return {"metadata": meta, "items": items}


def a_line(type_, object_):
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


def deep(levels):
    return json.loads("[" * levels + "]" * levels)


class Server:
    """Answers lists and streams from a script: pages, lines, or the status of a refusal; then it is silent."""

    def __init__(self, lists, watches):
        self.lists, self.watches, self.asked = list(lists), list(watches), []

    async def answer(self, request):
        query = request.query
        self.asked.append(("watch", query["resourceVersion"]) if "watch" in query else ("list", query["limit"]))
        script = self.watches if "watch" in query else self.lists
        if not script:
            await asyncio.Event().wait()
        found = script.pop(0)
        if isinstance(found, int):
            return web.json_response({"kind": "Status", "message": f"no: {found}"}, status=found)
        if isinstance(found, dict):
            return web.json_response(found)
        stream = web.StreamResponse()
        await stream.prepare(request)
        for line in found:
            await stream.write(line)
        return stream


class Sink:
    def __init__(self):
        self.kept = []

    def put(self, item):
        return () if "echo" in item else [("a", item["metadata"]["name"])]

    def drop(self, item):
        return [("a", item["metadata"]["name"])]

    def keep(self, places, version):
        self.kept.append((sorted(name for _, name in places), version))


@asynccontextmanager
async def serving(server, stream, path=JOBS):
    app = web.Application(client_max_size=0)
    app.router.add_get(path, server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async def headers():
        return {"Authorization": "Bearer x"}

    async def renew():
        waits.append("renew")

    wire = Wire({path: stream}, headers, renew, {}, sleep)
    async with aiohttp.ClientSession(middlewares=(wire,)) as session:
        info = kopf.AiohttpSession(server=address, aiohttp_session=session)
        auth.vault_var.set(credentials.Vault({"login": info}))
        yield waits
    await runner.cleanup()


async def followed(server, stream, events, path=JOBS):
    """What kopf makes of the script: so many events of it."""
    settings = kopf.OperatorSettings()
    settings.watching.reconnect_backoff = 0
    group, version, plural = path.split("/")[2:]
    resource = references.Resource(group=group, version=version, plural=plural, kind="Job", namespaced=True)
    found = []
    async with serving(server, stream, path) as waits, asyncio.timeout(HANG_S):
        async for one in watching.infinite_watch(settings=settings, resource=resource, namespace=None):
            if not isinstance(one, watching.Bookmark):
                found.append(one)
            if len(found) == events:
                break
    return found, waits


def names(found):
    """Of each event its type and the keys that it concerns; here each object's key has its name."""
    return [(one["type"], ",".join(name for _, name in one["object"].get("keys", ()))) for one in found]


@pytest.fixture
def stream():
    return Stream(Watched(Jobs), Sink())


async def test_pages_then_lines(stream):
    """The stream knows each list's names and version."""
    server = Server(
        [a_page([item("x")], 10, "more"), a_page([item("y")], 10)],
        [[a_line("ADDED", item("z", 11)), a_line("BOOKMARK", item("", 15))], [a_line("DELETED", item("x", 16))]],
    )
    found, _ = await followed(server, stream, 5)
    assert names(found) == [(None, "x"), (None, "y"), ("ADDED", "z"), ("BOOKMARK", ""), ("DELETED", "x")]
    assert stream.sink.kept == [(["x", "y"], 10)]
    assert server.asked[2:] == [("watch", "10"), ("watch", "15")]


async def test_what_concerns_no_key_passes_as_a_bookmark(stream):
    """kopf calls no handler for it, and connects anew from its version; a list leaves it out."""
    echo = a_line("MODIFIED", item("x", 12, echo=True))
    server = Server([a_page([item("x", echo=True), item("y")], 10)], [[echo], [a_line("ADDED", item("z", 13))]])
    found, _ = await followed(server, stream, 3)
    assert names([found[0], found[2]]) == [(None, "y"), ("ADDED", "z")]
    assert found[1] == {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "12"}}}
    assert server.asked[1:] == [("watch", "10"), ("watch", "12")]
    assert stream.sink.kept == [(["x", "y"], 10)]


@pytest.mark.parametrize("code", [410, 500, 504])
async def test_whatever_ends_a_stream_is_a_new_list(stream, code):
    """kopf itself goes on from 410 alone; any other code would end the operator."""
    server = Server([a_page([], 10), a_page([item("x")], 20)], [[a_line("ERROR", {"code": code, "message": "why"})]])
    found, _ = await followed(server, stream, 1)
    assert names(found) == [(None, "x")]
    assert stream.sink.kept == [([], 10), (["x"], 20)]


@pytest.mark.parametrize("code", [400, 403, 404, 410])
async def test_a_refused_watch_is_a_new_list(stream, code):
    server = Server([a_page([], 10), a_page([item("x")], 20)], [code])
    found, waits = await followed(server, stream, 1)
    assert names(found) == [(None, "x")]
    assert len(waits) == 1


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_is_busy_is_asked_again_from_the_same_version(stream, code):
    server = Server([a_page([], 10)], [code, [a_line("ADDED", item("x", 11))]])
    await followed(server, stream, 1)
    assert server.asked[1:] == [("watch", "10"), ("watch", "10")]


@pytest.mark.parametrize("code", [400, 403, 404, 410, 500])
async def test_a_list_that_fails_is_tried_again_from_its_beginning(stream, code):
    """A page whose token is forgotten, too."""
    server = Server([a_page([item("x")], 10, "more"), code, a_page([item("y")], 20)], [])
    found, waits = await followed(server, stream, 2)
    assert names(found) == [(None, "x"), (None, "y")]
    assert stream.sink.kept == [(["y"], 20)]
    assert 0.3 < waits[0] < 0.7


async def test_a_stream_that_breaks_within_a_line_goes_on_where_it_was(stream):
    server = Server(
        [a_page([], 10)], [[a_line("ADDED", item("x", 11)), b'{"type":"ADD'], [a_line("ADDED", item("y", 12))]]
    )
    found, _ = await followed(server, stream, 2)
    assert names(found) == [("ADDED", "x"), ("ADDED", "y")]
    assert server.asked[-1] == ("watch", "11")


async def test_a_line_that_is_no_json_ends_the_stream_alone(stream):
    server = Server([a_page([], 10)], [[b"<html>\n"], [a_line("ADDED", item("y", 12))]])
    found, _ = await followed(server, stream, 1)
    assert names(found) == [("ADDED", "y")]


async def test_a_list_of_nothing_written_as_null(stream):
    server = Server([{"metadata": {"resourceVersion": "10"}, "items": None}], [[a_line("ADDED", item("y", 12))]])
    found, _ = await followed(server, stream, 1)
    assert names(found) == [("ADDED", "y")]


async def test_poison_passes_kopf_as_keys(stream):
    """Nesting that no recursive decoder survives, and an object of 600 KiB; kopf gets the keys that they concern."""
    nested = json.dumps(item("deep", 3)).encode()[:-1] + b', "spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    page = b'{"metadata":{"resourceVersion":"10"},"items":[' + nested + b"," + json.dumps(item("x")).encode() + b"]}"
    line = b'{"type":"MODIFIED","object":' + nested.replace(b'"3"', b'"11"') + b"}\n"
    server = Server([], [[line, a_line("ADDED", item("large", 12, spec={"a": "b" * 600_000}))]])

    async def answer(request, usual=server.answer):
        if "watch" in request.query:
            return await usual(request)
        return web.Response(body=page, content_type="application/json")

    server.answer = answer
    found, _ = await followed(server, stream, 3)
    assert names(found) == [(None, "deep,x"), ("MODIFIED", "deep"), ("ADDED", "large")]
    assert [sorted(one["object"]) for one in found] == [["keys", "metadata"]] * 3


async def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects(stream, monkeypatch):
    monkeypatch.setattr(module, "PAGE_BYTES_MAX", 1000)
    rows = [item(str(n), spec="a" * 200) for n in range(5)]
    server = Server(
        [a_page(rows, 10), a_page(rows[:2], 10, "more"), a_page(rows[2:4], 10, "on"), a_page(rows[4:], 10)], []
    )
    found, _ = await followed(server, stream, 3)
    assert [name for _, name in names(found)] == ["0,1", "2,3", "4"]
    assert [asked[1] for asked in server.asked[:2]] == ["250", "62"]


async def test_the_metadata_alone_is_asked_for_where_nobody_reads_more():
    seen = []

    class Watching(Server):
        async def answer(self, request):
            seen.append(request.headers["Accept"])
            return await super().answer(request)

    server = Watching([a_page([item("x")], 10)], [[a_line("ADDED", item("y", 11))]])
    await followed(server, Stream(Watched(ReplicaSets, metadata_only=True), Sink()), 2, SETS)
    assert ["PartialObjectMetadata" in one for one in seen] == [True, True]


async def test_a_refused_login_is_renewed_once(stream):
    server = Server([401, a_page([item("x")], 10)], [])
    found, waits = await followed(server, stream, 1)
    assert names(found) == [(None, "x")]
    assert waits == ["renew"]


def test_the_bounds_are_those_that_were_measured():
    assert module.PAGE_BYTES_MAX < ANSWER_BYTES_MAX
    assert json.loads(LIST_ANEW)["object"]["code"] == 410
