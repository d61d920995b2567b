"""The workload stage: applies the objects that serve, deletes those that are wanted no longer, and stops replicas.

A refused object holds up the objects that need it, and no others. `reconciler.py` calls this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.cluster.apply import Applier
from windlass_operator.cluster.kinds import APPLIED, Pods
from windlass_operator.cluster.protocol import Cluster
from windlass_operator.errors import NotServedError, UserError
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.reconcile.group_rollout import to_end
from windlass_operator.reconcile.snapshot import Snapshot
from windlass_operator.records.base import Record
from windlass_operator.records.workloads import Workload
from windlass_operator.spans import spans

WORKLOADS = ("Deployment", "StatefulSet")
BESIDE = ("PodDisruptionBudget", "Ingress", "HTTPRoute")  # no pod needs these


@dataclass(frozen=True, slots=True)
class Applied:
    """Whether anything was written, and whether the cluster serves the routes that are wanted."""

    wrote: bool
    routes_known: bool


@dataclass(slots=True)
class _Writes:
    """The writes of one reconcile; the first refusal is kept, so that independent writes still go out."""

    refused: UserError | None = None
    lacking: bool = False  # an object that pods need was refused
    wrote: bool = False
    routes_known: bool = True

    async def apply(self, applier: Applier, manifest: Manifest, live: Mapping[str, Any] | None) -> None:
        """Apply the object, unless one that it needs was refused."""
        if self.lacking and not (live is not None and _wants_no_pod(manifest)):
            return
        try:
            self.wrote |= await applier.apply(manifest, live)
        except NotServedError:  # only HTTPRoutes come with a CRD that may be missing
            self.routes_known = False
        except UserError as error:
            self.refused = self.refused or error
            self.lacking |= manifest["kind"] not in BESIDE

    async def attempt(self, write: Awaitable[object]) -> None:
        """Make a write that no other waits for."""
        try:
            await write
        except UserError as error:
            self.refused = self.refused or error

    def finish(self) -> None:
        """Raise the first refusal."""
        if self.refused is not None:
            raise self.refused


@spans.stage("apply")
async def bring_in_force(
    cluster: Cluster, applier: Applier, snapshot: Snapshot, wanted: tuple[Manifest, ...]
) -> Applied:
    """Apply the wanted objects, then delete the others; raises the first refusal after all writes."""
    writes, children, namespace = _Writes(), snapshot.children, snapshot.service.metadata.namespace
    for manifest in wanted:
        live = children.live(manifest["kind"], manifest["metadata"]["name"])
        await writes.apply(applier, manifest, live)
    for old in _unwanted(snapshot, wanted, writes.lacking):
        await writes.attempt(cluster.delete(APPLIED[old.kind], namespace, old.name))
    for pod in to_end(children.stateful_sets, children.pods):
        await writes.attempt(cluster.delete(Pods, namespace, pod.name))
    writes.finish()
    return Applied(writes.wrote, writes.routes_known)


async def end_replicas(cluster: Cluster, workloads: Iterable[Workload]) -> None:
    """Scale the workloads to zero and leave the rest of them alone; raises the first refusal after all writes."""
    writes = _Writes()
    for live in workloads:
        if live.spec.replicas and not live.is_leaving:
            await writes.attempt(cluster.overwrite(_without_pods(live)))
    writes.finish()


def _without_pods(live: Workload) -> Manifest:
    meta = {"name": live.name, "namespace": live.metadata.namespace}
    return {"apiVersion": "apps/v1", "kind": live.kind, "metadata": meta, "spec": {"replicas": 0}}


def _wants_no_pod(manifest: Manifest) -> bool:
    return manifest["kind"] in WORKLOADS and manifest["spec"]["replicas"] == 0


def _unwanted(snapshot: Snapshot, wanted: tuple[Manifest, ...], lacking: bool) -> list[Record]:
    """The objects to delete; those that serve now stay while the workload that replaces them is not in force."""
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
    replaced = lacking and any(row["kind"] in WORKLOADS and not _wants_no_pod(row) for row in wanted)
    return [
        old
        for old in snapshot.children.owned(snapshot.service.metadata.uid)
        if (old.kind, old.name) not in names and not old.is_leaving and (old.kind in BESIDE or not replaced)
    ]
