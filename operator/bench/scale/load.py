"""The load of the scale run: nodes with GPUs, LLMServices, live edits; and looking at what has become of them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx2

GROUP = "/apis/serving.windlass.dev/v1alpha1"
NAMESPACES = 10
GPUS_A_NODE = 8
UNDER_WAY = 16
NODE_LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-L20",
    "nvidia.com/gpu.memory": "46068",
    "nvidia.com/gpu.count": str(GPUS_A_NODE),
}
ALLOCATABLE = {"cpu": "256", "memory": "4Ti", "pods": "500", "nvidia.com/gpu": str(GPUS_A_NODE)}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The API server, as the run's own user."""

    http: httpx2.AsyncClient

    @classmethod
    def connect(cls, api: Any) -> Cluster:  # noqa: ANN401 - of a module loaded by path
        """With the admin's token; the pool is as large as what is under way at once."""
        verify = ssl.create_default_context(cafile=str(api.ca_file))
        headers = {"Authorization": f"Bearer {api.token}"}
        return cls(httpx2.AsyncClient(base_url=api.url, verify=verify, headers=headers, timeout=60, trust_env=False))

    async def post(self, path: str, body: object) -> None:
        """Create one object."""
        (await self.http.post(path, json=body)).raise_for_status()

    async def patch(self, path: str, body: object) -> None:
        """Merge patch."""
        head = {"Content-Type": "application/merge-patch+json"}
        (await self.http.patch(path, content=json.dumps(body), headers=head)).raise_for_status()

    async def items(self, path: str) -> list[dict[str, Any]]:
        """A whole list, in pages."""
        found: list[dict[str, Any]] = []
        following = ""
        while True:
            answer = await self.http.get(path, params={"limit": "500", "continue": following})
            page = answer.raise_for_status().json()
            found += page["items"]
            following = page["metadata"].get("continue", "")
            if not following:
                return found

    async def count(self, path: str) -> int:
        """How many objects there are, without reading them."""
        page = (await self.http.get(path, params={"limit": "1"})).raise_for_status().json()
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def namespace(number: int) -> str:
    """Services lie in ten namespaces in turn."""
    return f"scale-{number % NAMESPACES}"


async def each(work: Callable[[int], Awaitable[None]], numbers: Iterable[int]) -> None:
    """Do the work for each number, a bounded few at once."""
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(UNDER_WAY)))


async def make_nodes(cluster: Cluster, services: int) -> None:
    """Enough nodes for one GPU a service, and one more; kwok makes them ready."""

    async def make(number: int) -> None:
        meta = {"name": f"gpu-{number}", "labels": NODE_LABELS}
        await cluster.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        status = {"allocatable": ALLOCATABLE, "capacity": ALLOCATABLE}
        await cluster.patch(f"/api/v1/nodes/gpu-{number}/status", {"status": status})
        # The API server marks new nodes until a node controller says that they are ready.
        await cluster.patch(f"/api/v1/nodes/gpu-{number}", {"spec": {"taints": []}})

    await each(make, range(services // GPUS_A_NODE + 2))


async def make_namespaces(cluster: Cluster) -> None:
    """The namespaces of the services."""
    for number in range(NAMESPACES):
        meta = {"name": namespace(number)}
        await cluster.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


async def make_services(cluster: Cluster, services: int) -> None:
    """The LLMServices, as fast as the API server takes them."""

    async def make(number: int) -> None:
        source = {"nfs": {"server": "10.0.0.12", "path": f"/models/{number}"}}
        body = {
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": f"qwen-{number}"},
            "spec": {"model": {"id": "Qwen2-0.5B-Instruct", "source": source}, "license": {"required": False}},
        }
        await cluster.post(f"{GROUP}/namespaces/{namespace(number)}/llmservices", body)

    await each(make, range(services))


async def edit_for(cluster: Cluster, services: int, seconds: float, rate: float) -> int:
    """Edits of owned Services at a steady rate, each of which the operator has to take back; how many were made."""
    loop, made = asyncio.get_running_loop(), 0
    begun = loop.time()
    for number in count():
        due = begun + number / rate
        if due > begun + seconds:
            return made
        await asyncio.sleep(max(0.0, due - loop.time()))
        which = number * 7919 % services  # spread over all of them
        path = f"/api/v1/namespaces/{namespace(which)}/services/qwen-{which}"
        await cluster.patch(path, {"metadata": {"labels": {"app.kubernetes.io/part-of": f"edit-{number}"}}})
        made += 1
    return made


def reasons(services: Iterable[dict[str, Any]], type_: str) -> dict[str, int]:
    """How many LLMServices give which reason in this condition."""
    counted: dict[str, int] = {}
    for one in services:
        rows = one.get("status", {}).get("conditions", [])
        reason = next((row["reason"] for row in rows if row["type"] == type_), "none")
        counted[reason] = counted.get(reason, 0) + 1
    return counted
