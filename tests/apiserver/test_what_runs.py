"""The stack of the running operator: kopf reads its streams, `kubernetes.aio` sends its other requests."""

from __future__ import annotations

import traceback
from pathlib import Path

import aiohttp
import pytest
from kubernetes.aio.client import ApiClient
from windlass_operator.cluster.wire import Wire
from windlass_operator.settings import Settings
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

PACKAGES = ("aiohttp", "kopf", "kubernetes", "windlass_operator")


def frames() -> list[str]:
    """The calls that lead here, outermost first: file below its package, and function."""
    found = []
    for frame in traceback.extract_stack():
        parts = Path(frame.filename).parts
        package = next((name for name in PACKAGES if name in parts), None)
        if package:
            found.append(f"{'/'.join(parts[len(parts) - 1 - parts[::-1].index(package) :])} {frame.name}")
    return found


@pytest.fixture
def stacks(monkeypatch) -> dict[str, list[str]]:
    """The stack of the first watch of LLMServices, and of each first other request by its method."""
    seen: dict[str, list[str]] = {}
    wire, call = Wire.__call__, ApiClient.call_api

    async def passing(self: Wire, request: aiohttp.ClientRequest, handler: object) -> aiohttp.ClientResponse:
        if "watch" in request.url.query and request.url.path.endswith("/llmservices"):
            seen.setdefault("watch", frames())
        return await wire(self, request, handler)

    async def asking(self: ApiClient, method: str, *words: object, **more: object) -> object:
        seen.setdefault(method, frames())
        return await call(self, method, *words, **more)

    monkeypatch.setattr(Wire, "__call__", passing)
    monkeypatch.setattr(ApiClient, "call_api", asking)
    return seen


def test_kopf_reads_and_kubernetes_writes(apiserver, namespace, monkeypatch, stacks, load_module):
    """Between the event loop and the middleware in kopf's session, every frame of a stream is kopf's or aiohttp's."""
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    settings = Settings("windlass/server", "1.2", "windlass/operator:1.2", watch_namespaces=(namespace,),
                        metrics_port=0, health_port=0)  # fmt: skip
    service = {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "qwen", "namespace": namespace},
        "spec": {"model": {"id": "m", "source": {"nfs": {"server": "10.0.0.12", "path": "/m"}}}},
    }
    with load_module("operator_thread").operating(settings):
        assert not apiserver.apply(service).returncode
        wait_until(lambda: {"watch", "PATCH"} <= stacks.keys(), "a watch and a write")
    for name, rows in stacks.items():
        print(f"{name}:", *rows, sep="\n  ")
    by_kopf = [row for row in stacks["watch"] if row.startswith("kopf/")]
    assert any("watching.py" in row for row in by_kopf), stacks["watch"]
    assert not any(row.startswith("windlass_operator/") for row in stacks["watch"]), stacks["watch"]
    assert not any(row.startswith("kopf/") for row in stacks["PATCH"])
