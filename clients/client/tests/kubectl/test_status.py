"""`status -w` of an API server that does not answer, and of one that does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import httpx2
import pytest
from windlass_base.kube.errors import UnreachableError
from windlass_client import AsyncClient, token_access
from windlass_kubectl import status
from windlass_kubectl.parser import parser
from windlass_testbed.waiting import HANG_S


def a_session(handle, *words: str) -> tuple[SimpleNamespace, list[str]]:
    """A session and what it says."""
    client = AsyncClient(token_access("https://api", "t", namespace="team"), transport=httpx2.MockTransport(handle))
    options, said = parser().parse_args(["status", "-w", *words]), list[str]()
    now = datetime.now(UTC)
    session = SimpleNamespace(client=client, namespace="team", options=options, is_text=True, say=said.append)
    session.now = lambda: now
    return session, said


def refuse(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("nobody is there", request=request)


@pytest.mark.parametrize("words", [(), ("-A",), ("-l", "a=b")], ids=str)
async def test_a_watch_fails_at_once_without_an_api_server(words):
    """Before the head of the table, and without the patience that a watch has later."""
    session, said = a_session(refuse, *words)
    async with asyncio.timeout(HANG_S):
        with pytest.raises(UnreachableError, match="no answer from https://api"):
            await status.run(session)
    assert said == []


async def test_a_watch_asks_for_one_service_first_and_then_for_all():
    """With the same namespace and labels."""
    asked: list[httpx2.URL] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url)
        if "watch" in request.url.params:
            return httpx2.Response(403, json={"kind": "Status", "reason": "Forbidden", "message": "enough"})
        meta = {"name": "demo", "namespace": "team", "uid": "u", "resourceVersion": "1"}
        spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}}
        items = [{"metadata": meta, "spec": spec}]
        return httpx2.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": items})

    session, said = a_session(handle, "-l", "a=b")
    with pytest.raises(Exception, match="enough"):
        await status.run(session)
    assert [one.params.get("limit") for one in asked] == ["1", "100", None]
    assert {(one.path, one.params["labelSelector"]) for one in asked} == {(asked[0].path, "a=b")}
    assert [line.split()[0] for line in said] == ["EVENT", "ADDED"]
