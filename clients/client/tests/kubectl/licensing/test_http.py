"""A port-forward to a license server that has only just been started."""

import asyncio
import sys

import httpx2
import pytest
from windlass_kubectl.forward import Forward
from windlass_kubectl.licensing import http

FOREVER, AT_ONCE = "import time; time.sleep(60)", ""


def refused(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("All connection attempts failed", request=request)


def unlicensed(_: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(404, text="no license is in force")


@pytest.mark.parametrize(
    ("kubectl", "server", "lasts"),
    [(AT_ONCE, refused, False), (FOREVER, refused, True), (FOREVER, unlicensed, True)],
    ids=["kubectl ended", "kubectl runs", "any answer"],
)
async def test_a_port_forward_that_ended_is_no_way(kubectl, server, lasts) -> None:
    """kubectl ends when the pod refuses its first connection; then another one is started."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", kubectl)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(server), base_url="http://forwarded") as client:
        assert await http.stands(client, Forward("http://forwarded", process, "windlass-license-server")) is lasts
    if process.returncode is None:
        process.kill()
    await process.wait()
