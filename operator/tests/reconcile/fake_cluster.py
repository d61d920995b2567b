"""A cluster made of dicts, for tests of the reconcile that need no API server."""

from __future__ import annotations

import copy

from windlass_api.objects.claims import Claims
from windlass_api.objects.inventory import usable
from windlass_operator.records.base import parse


class FakeCluster:
    """Keeps objects by kind and name; `writes` names every request that would change something."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict] = {}
        self.writes: list[str] = []

    def put(self, kind, obj) -> None:
        self.objects[(kind, obj["metadata"]["name"])] = obj

    def one(self, kind, name):
        return self.objects.get((kind, name))

    def all(self, kind):
        return [obj for (its_kind, _), obj in self.objects.items() if its_kind == kind]

    async def get(self, kind, namespace, name):
        return copy.deepcopy(self.one(kind.kind, name))

    async def find(self, kind, namespace, labels=None, fields=None):
        rows = self.all(kind.kind)
        has = lambda row: (labels or {}).items() <= row["metadata"].get("labels", {}).items()  # noqa: E731
        return [copy.deepcopy(row) for row in rows if has(row)]

    async def records(self, kind, shape, namespace, labels):
        return [parse(shape, item) for item in await self.find(kind, namespace, labels)]

    async def gpu_nodes(self):
        return usable(self.all("Node"))

    async def gpus_taken(self, namespaces, besides):
        claims = Claims()
        for pod in self.all("Pod"):
            claims.put(pod)
        return claims.taken(besides)

    async def apply(self, manifest):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self.writes.append(f"apply {kind}/{name}")
        live = copy.deepcopy(manifest)
        if live.get("spec", {}).get("paused") is False:  # the API server leaves it out
            del live["spec"]["paused"]
        live["metadata"].setdefault("uid", f"uid-{kind}-{name}")
        live["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        self.put(kind, live)
        return copy.deepcopy(live)

    async def create(self, manifest):
        taken = self.one(manifest["kind"], manifest["metadata"]["name"]) is not None
        return None if taken else await self.apply(manifest)

    async def overwrite(self, manifest):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self.writes.append(f"overwrite {kind}/{name}")
        live = self.one(kind, name)
        for part in ("metadata", "spec"):
            live.setdefault(part, {}).update(copy.deepcopy(manifest.get(part, {})))

    async def apply_status(self, manifest):
        self.writes.append("status")
        self.one(manifest["kind"], manifest["metadata"]["name"])["status"] = copy.deepcopy(manifest["status"])

    async def delete(self, kind, namespace, name):
        word = kind.kind
        self.writes.append(f"delete {word}/{name}")
        self.objects.pop((word, name), None)
