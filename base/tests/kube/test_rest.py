"""Answers of programs behind the API server's proxy: they are foreign, and end no session."""

from __future__ import annotations

import httpx2
import pytest
from windlass_base.kube.access import token_access
from windlass_base.kube.errors import ForbiddenError
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


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (401, "Forbidden"), (403, "Unauthorized")])
async def test_a_program_behind_the_proxy_cannot_say_that_the_token_is_wrong(code, reason):
    """A Status in the API server's form is the program's answer where it would end the session."""
    api = an_api(lambda _: httpx2.Response(code, json=a_status(reason)))
    async with api.proxied("GET", PATH, "pod a/p") as answer:
        text = await answer.read(1000)
    await api.aclose()
    assert (answer.status, b"forged" in (text or b"")) == (code, True)


async def test_a_missing_right_to_the_proxy_is_still_named():
    api = an_api(lambda _: httpx2.Response(403, json=a_status("Forbidden")))
    with pytest.raises(ForbiddenError, match="forged"):
        async with api.proxied("GET", PATH, "pod a/p"):
            pass
    await api.aclose()
