"""HTTP to the API server against a real socket: paths, refusals, a renewed login, lines across chunks."""

from __future__ import annotations

import json

import aiohttp
import httpx2
import pytest
import yaml
from aiohttp import web
from windlass_operator.cluster.kinds import Deployments, LLMServices, LLMServiceStatus, Nodes, Pods
from windlass_operator.cluster.rest import UNREACHABLE, Bearer, Rest, StatusError, encoded, path_of

PATHS = [
    (path_of(Pods), "/api/v1/pods"),
    (path_of(Pods, "a"), "/api/v1/namespaces/a/pods"),
    (path_of(Deployments, "a", "x"), "/apis/apps/v1/namespaces/a/deployments/x"),
    (path_of(Nodes, "a", "x"), "/api/v1/nodes/x"),
    (path_of(LLMServices), "/apis/serving.windlass.dev/v1alpha1/llmservices"),
    (
        path_of(LLMServiceStatus, "a", "x"),
        "/apis/serving.windlass.dev/v1alpha1/namespaces/a/llmservices/x/status",
    ),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_paths(path, expected):
    assert path == expected


class Rotating(httpx2.Auth):
    """A token that is read anew after a refusal, as a service account's is."""

    token = "one"

    def auth_flow(self, request):
        request.headers["Authorization"] = f"Bearer {self.token}"
        answer = yield request
        if answer.status_code == 401:
            request.headers["Authorization"] = "Bearer two"
            yield request


async def answer(request):
    if request.headers.get("Authorization") != "Bearer two":
        return web.json_response({"kind": "Status", "message": "who?"}, status=401)
    if request.path == "/refused":
        return web.json_response({"kind": "Status", "message": "no such thing"}, status=404)
    if request.path == "/stream":
        stream = web.StreamResponse()
        await stream.prepare(request)
        for part in (b'{"a":', b"1}\n{", b'"b":2}\n'):
            await stream.write(part)
        return stream
    return web.json_response({"method": request.method, "body": (await request.read()).decode()})


@pytest.fixture
async def rest(unused_tcp_port):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    http = aiohttp.ClientSession(base_url=f"http://127.0.0.1:{unused_tcp_port}/")
    yield Rest(http, Bearer(Rotating()))
    await http.close()
    await runner.cleanup()


async def test_a_refused_token_is_renewed_once(rest):
    assert await rest.call("PATCH", "/x", body={"a": 1}) == b'{"method": "PATCH", "body": "{\\"a\\":1}"}'


async def test_a_refusal_has_the_server_s_words(rest):
    with pytest.raises(StatusError, match="no such thing") as caught:
        await rest.call("GET", "/refused")
    assert caught.value.code == 404


async def test_a_login_that_stays_refused_says_so(rest):
    rest.bearer._auth = None
    with pytest.raises(StatusError, match="who"):
        await rest.call("GET", "/x")


async def test_lines_are_whole_whatever_the_chunks(rest):
    await rest.call("GET", "/x")
    assert [line async for line in rest.lines("/stream", {})] == [b'{"a":1}', b'{"b":2}']


async def test_nobody_there_is_one_of_the_known_errors(rest):
    await rest.call("GET", "/x")
    await rest.http.close()
    gone = Rest(aiohttp.ClientSession(base_url="http://127.0.0.1:9/"), Bearer(None))
    with pytest.raises(UNREACHABLE):
        await gone.call("GET", "/x")
    await gone.aclose()


def test_a_body_is_one_document_to_json_and_yaml():
    """Server-side apply reads YAML, where some characters of JSON are refused and others become a blank."""
    every = "".join(map(chr, (*range(0x300), *range(0x2000, 0x2070), 0xFDD0, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600)))
    body = encoded({"status": {"message": every}})
    assert json.loads(body) == yaml.safe_load(body) == {"status": {"message": every}}
