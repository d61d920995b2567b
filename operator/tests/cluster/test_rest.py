"""HTTP to the API server against a real socket: paths, refusals, a renewed login."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from windlass_operator.cluster import rest as module
from windlass_operator.cluster.kinds import Deployments, LLMServices, LLMServiceStatus, Nodes, Pods
from windlass_operator.cluster.rest import APPLY, UNREACHABLE, Login, StatusError, encoded
from windlass_operator.errors import SettingsError
from windlass_testbed.waiting import HANG_S

PATHS = [
    (Pods.path(), "/api/v1/pods"),
    (Pods.path("a"), "/api/v1/namespaces/a/pods"),
    (Deployments.path("a", "x"), "/apis/apps/v1/namespaces/a/deployments/x"),
    (Nodes.path("a", "x"), "/api/v1/nodes/x"),
    (LLMServices.path(), "/apis/serving.windlass.dev/v1alpha1/llmservices"),
    (
        LLMServiceStatus.path("a", "x"),
        "/apis/serving.windlass.dev/v1alpha1/namespaces/a/llmservices/x/status",
    ),
]


@pytest.mark.parametrize(("path", "expected"), PATHS)
def test_paths(path, expected):
    assert path == expected


async def answer(request):
    if request.headers.get("Authorization") != "Bearer two":
        return web.json_response({"kind": "Status", "message": "who?"}, status=401)
    if request.path == "/refused":
        return web.json_response({"kind": "Status", "message": "no such thing"}, status=404)
    return web.json_response({"method": request.method, "body": (await request.read()).decode()})


@pytest.fixture
async def rest(unused_tcp_port, tmp_path, monkeypatch):
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port).start()
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(config(f"http://127.0.0.1:{unused_tcp_port}", "one"))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    login = await Login.find()
    kubeconfig.write_text(config(login.server, "two"))
    client = login.rest()
    yield client
    await client.aclose()
    await runner.cleanup()


def config(server, token):
    """A kubeconfig; its token is read anew after a refusal, as a rotated one."""
    rows = {
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    return json.dumps({"current-context": "x", **rows})


async def test_a_refused_token_is_renewed_once(rest):
    assert await rest.call("PATCH", "/x", body={"a": 1}) == b'{"method": "PATCH", "body": "{\\"a\\": 1}"}'


async def test_a_refusal_has_the_server_s_words(rest):
    with pytest.raises(StatusError, match="no such thing") as caught:
        await rest.call("GET", "/refused")
    assert caught.value.code == 404


async def test_a_login_that_stays_refused_says_so(rest):
    await asyncio.to_thread(Path(os.environ["KUBECONFIG"]).write_text, config(rest.login.server, "three"))
    with pytest.raises(StatusError, match="who"):
        await rest.call("GET", "/x")


async def test_nobody_there_is_one_of_the_known_errors(rest):
    rest.login.configuration.host = "http://127.0.0.1:9"
    with pytest.raises(UNREACHABLE):
        await rest.call("GET", "/x")


async def test_an_apply_is_sent_as_it_was_written(rest):
    """The library writes JSON bodies itself; what goes to a YAML parser is ours."""
    answer = json.loads(await rest.call("PATCH", "/x", {"force": "true"}, {"a": "\U0001f600"}, APPLY))
    assert answer["body"] == '{"a":"\U0001f600"}'


async def test_no_login_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="no access to a cluster: no service account of a pod, and no kubeconfig"):
        await Login.find()


@pytest.mark.parametrize("authority", ["nonsense", None], ids=["no certificate", "no file"])
async def test_certificates_that_cannot_be_used_are_a_sentence(tmp_path, monkeypatch, authority):
    place = tmp_path / "ca.pem"
    if authority is not None:
        place.write_text(authority)
    cluster = {"server": "https://127.0.0.1:9", "certificate-authority": str(place)}
    given = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "b", "user": "c"}}],
        "clusters": [{"name": "b", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(given))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(SettingsError, match=r"^no access to a cluster"):
        await Login.find()


async def test_a_kubeconfig_that_is_no_yaml_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("kind: Config\n- x")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(SettingsError, match=r"^no access to a cluster: .* cannot be used: .*$") as caught:
        await Login.find()
    assert "\n" not in str(caught.value)


def test_a_body_is_one_document_to_json_and_yaml():
    """Server-side apply reads YAML, where some characters of JSON are refused and others become a blank."""
    every = "".join(map(chr, (*range(0x300), *range(0x2000, 0x2070), 0xFDD0, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600)))
    body = encoded({"status": {"message": every}})
    assert json.loads(body) == yaml.safe_load(body) == {"status": {"message": every}}


async def test_an_unused_connection_is_closed(unused_tcp_port, monkeypatch):
    """With TLS each one holds a third of a MiB, and a burst of writes opens one for each worker."""
    closed = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert await reader.read() == b""
        closed.set()
        writer.close()

    monkeypatch.setattr(module, "IDLE_S", 0.05)
    login = Login()
    login.configuration.host = f"http://127.0.0.1:{unused_tcp_port}"
    async with await asyncio.start_server(serve, "127.0.0.1", unused_tcp_port):
        client = login.rest()
        assert await client.call("GET", "/x") == b"{}"
        await asyncio.wait_for(closed.wait(), HANG_S)
        await client.aclose()
