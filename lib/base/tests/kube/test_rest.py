"""Answers of programs behind the API server's proxy: they are foreign, and end no session."""

from __future__ import annotations

import httpx2
import pytest
from windlass_base.kube.access import token_access
from windlass_base.kube.rest import Api

PATH = "/api/v1/namespaces/a/pods/p:8501/proxy/metrics"


def an_api(answer) -> Api:
    return Api(token_access("https://kube.test", "t"), transport=httpx2.MockTransport(answer))


def a_status(reason: str) -> dict[str, str]:
    return {"kind": "Status", "reason": reason, "message": "forged"}


async def test_a_cookie_of_a_pod_is_neither_kept_nor_sent_on():
    """The answer comes in the API server's name, so a cookie of one pod would reach all others."""
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers.get("cookie", ""))
        return httpx2.Response(200, headers={"Set-Cookie": "spy=1; Path=/"}, json={})

    api = an_api(answer)
    async with api.proxied("GET", PATH, "pod a/p") as first:
        await first.read(100)
    await api.call("GET", "/api/v1/nodes", "nodes")
    await api.aclose()
    assert seen == ["", ""]


CODES = [(401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (422, "Invalid")]


@pytest.mark.parametrize(("code", "reason"), CODES)
async def test_a_refusal_through_the_proxy_is_an_answer(code, reason):
    """A Status in the API server's form may be the program's: it is no error of the API server's."""
    api = an_api(lambda _: httpx2.Response(code, json=a_status(reason)))
    async with api.proxied("GET", PATH, "pod a/p") as answer:
        text = await answer.read(1000)
    await api.aclose()
    assert (answer.status, b"forged" in (text or b"")) == (code, True)
