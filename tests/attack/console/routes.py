"""Every route of the console's API with a request that it would take, so that no attack forgets one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPENAPI = Path(__file__).resolve().parents[3] / "clients/console/openapi.json"
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
BENCH = {"concurrency": [1]}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SPEC = {"model": {"id": "m", "source": {"pvc": {"claimName": "models", "path": "qwen2-7b"}}}}


@dataclass(frozen=True)
class Route:
    """One route; `body` is JSON, or bytes for a file."""

    method: str
    path: str
    query: dict[str, str]
    body: Any = None

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return (
            self.body if isinstance(self.body, bytes) else b"" if self.body is None else json.dumps(self.body).encode()
        )


def bodies(namespace: str, name: str) -> dict[tuple[str, str], Any]:
    """A body for each route that takes one."""
    service = {"metadata": {"name": f"{name}-new"}, "spec": SPEC}
    loaded = {"metadata": {"name": name, "namespace": namespace, "generation": 1}, "spec": SPEC}
    one = "/api/services/{namespace}/{name}"
    return {
        ("POST", "/api/session"): {"token": "a.b.c"},
        ("POST", "/api/services/{namespace}"): service,
        ("PUT", one): {"loaded": loaded, "wanted": {**loaded, "spec": {**SPEC, "replicas": 2}}},
        ("PATCH", one): {"spec": {"replicas": 2}},
        ("PUT", f"{one}/scale"): {"replicas": 2},
        ("PUT", f"{one}/suspend"): {"suspend": True},
        ("PUT", f"{one}/retry"): {},
        ("POST", f"{one}/chat"): CHAT,
        ("POST", "/api/plan"): {"namespace": namespace, "service": {"metadata": {"name": name}, "spec": SPEC}},
        ("POST", "/api/licenses/{namespace}/{name}"): b"a license",
        ("POST", "/api/benchmarks/{namespace}/{name}"): BENCH,
    }


def every(namespace: str, name: str) -> list[Route]:
    """All routes, for this namespace and this service."""
    given = bodies(namespace, name)
    found = []
    for path, operations in json.loads(OPENAPI.read_text())["paths"].items():
        for verb, operation in operations.items():
            method = verb.upper()
            asked = {row["name"] for row in operation.get("parameters", ()) if row["in"] == "query" and row["required"]}
            query = {"namespace": namespace} if "namespace" in asked else {}
            place = path.format(namespace=namespace, name=name)
            found.append(Route(method, place, query, given.pop((method, path), None)))
    assert not given, f"bodies of no route: {sorted(given)}"
    return found
