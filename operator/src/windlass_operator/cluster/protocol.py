"""What reading and applying need of a cluster: dicts in, dicts out, None for what is not there.

`client.py` is the real one, `stored.py` reads from the store; the tests have one made of dicts. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from windlass_api.plan.model import NodeGpus

from windlass_operator.cluster.kinds import Kind
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.records.base import R

ALL_NAMESPACES = "*"


class Cluster(Protocol):
    """What reading and applying need of a cluster; the tests give one made of dicts."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""

    async def find(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""

    async def records(self, kind: Kind, shape: type[R], namespace: str, labels: Mapping[str, str]) -> list[R]:
        """The objects that match, as records: for kinds that no apply compares."""

    async def gpu_nodes(self) -> tuple[NodeGpus, ...]:
        """Nodes with GPUs that take new pods, by name, as if no pod was there."""

    async def gpus_taken(self, namespaces: tuple[str, ...], besides: tuple[str, str] | None) -> Mapping[str, int]:
        """GPUs that pods hold, by node, without those of the LLMService `besides` (namespace, name)."""

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply of an object of ours; returns what the API server made of it."""

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of an object that is not there yet; None, and nothing changed, when there is one."""

    async def overwrite(self, manifest: Manifest) -> Manifest:
        """Merge patch of an object of ours: lists become ours as a whole."""

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of our resource's status; returns the resource, None when it is gone."""

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object and what it owns; nothing when it is gone already."""
