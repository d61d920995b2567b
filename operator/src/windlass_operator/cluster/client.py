"""A thin layer over lightkube: dicts in, dicts out, None for what is not there, our errors for what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.core.resource import api_info
from lightkube.types import CascadeType, PatchType

from windlass_operator import metrics
from windlass_operator.cluster.kinds import APPLIED, LLMServiceStatus, Namespaced, Nodes
from windlass_operator.errors import InvalidError, Retry, UserError

FIELD_MANAGER = "windlass"
ALL_NAMESPACES = "*"
Manifest = dict[str, Any]
INVALID = 422
REFUSED = (400, 403, 405)  # the same request will be refused again
RETRY_AFTER_S = 2.0


class Cluster(Protocol):
    """What reading and applying need of a cluster; the tests give one made of dicts."""

    async def get(self, kind: Namespaced, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""

    async def find(
        self,
        kind: Namespaced,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""

    async def list_nodes(self) -> list[Manifest]:
        """All nodes."""

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply of an object of ours; returns what the API server made of it."""

    async def overwrite(self, manifest: Manifest) -> None:
        """Merge patch of an object of ours: lists become ours as a whole."""

    async def apply_status(self, manifest: Manifest) -> None:
        """Server-side apply of our resource's status."""

    async def delete(self, kind: Namespaced, namespace: str, name: str) -> None:
        """Delete an object and what it owns; nothing when it is gone already."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The real cluster."""

    client: AsyncClient

    async def get(self, kind: Namespaced, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        try:
            return cast(Manifest, await self.client.get(kind, name, namespace=namespace))
        except ApiError as error:
            if error.status.code == 404:
                return None
            raise _told(error, f"{kind.__name__.lower()}/{name}") from error

    async def find(
        self,
        kind: Namespaced,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""
        rows = self.client.list(
            kind, namespace=namespace, labels=dict(labels) if labels else None, fields=dict(fields) if fields else None
        )
        # In a list the API server leaves out what the list's own kind says.
        what = api_info(kind).resource
        return [{"apiVersion": what.api_version, "kind": what.kind, **row} async for row in rows]

    async def list_nodes(self) -> list[Manifest]:
        """All nodes."""
        return [cast(Manifest, row) async for row in self.client.list(Nodes)]

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply of an object of ours; returns what the API server made of it."""
        return await self._patch(manifest, PatchType.APPLY, force=True)

    async def overwrite(self, manifest: Manifest) -> None:
        """Merge patch of an object of ours: lists become ours as a whole."""
        await self._patch(manifest, PatchType.MERGE)

    async def _patch(self, manifest: Manifest, how: PatchType, force: bool = False) -> Manifest:
        kind, meta = str(manifest["kind"]), manifest["metadata"]
        metrics.WRITES.labels(kind, how.name.lower()).inc()
        try:
            answer = await self.client.patch(
                APPLIED[kind],
                meta["name"],
                manifest,
                namespace=meta["namespace"],
                patch_type=how,
                field_manager=FIELD_MANAGER,
                force=force,
            )
        except ApiError as error:
            raise _told(error, f"{kind} {meta['name']}") from error
        return cast(Manifest, answer)

    async def apply_status(self, manifest: Manifest) -> None:
        """Server-side apply of our resource's status."""
        metrics.WRITES.labels(str(manifest["kind"]), "status").inc()
        meta = manifest["metadata"]
        try:
            await self.client.patch(
                LLMServiceStatus,
                meta["name"],
                manifest,
                namespace=meta["namespace"],
                patch_type=PatchType.APPLY,
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except ApiError as error:
            if error.status.code == 404:  # deleted while we looked
                return
            raise

    async def delete(self, kind: Namespaced, namespace: str, name: str) -> None:
        """Delete an object and what it owns; nothing when it is gone already."""
        metrics.WRITES.labels(kind.__name__.removesuffix("s"), "delete").inc()
        try:
            await self.client.delete(kind, name, namespace=namespace, cascade=CascadeType.BACKGROUND)
        except ApiError as error:
            if error.status.code != 404:
                raise

    async def aclose(self) -> None:
        """Let the connections go."""
        await self.client.close()


def connect(config: KubeConfig | None = None) -> ApiServer:
    """A client from the pod's service account, else KUBECONFIG, else ~/.kube/config."""
    timeout = httpx2.Timeout(30.0)
    return ApiServer(AsyncClient(config, timeout=timeout, field_manager=FIELD_MANAGER, lazy=False))


def _told(error: ApiError, what: str) -> Exception:
    """The API server's refusal as our error: the user's to mend, or ours to try again."""
    message = str(error.status.message or error)
    if error.status.code == INVALID:
        return InvalidError("Rejected", f"the API server refuses {what}: {message}")
    if error.status.code in REFUSED:
        return UserError("Rejected", f"the API server refuses {what}: {message}")
    if error.status.code == 409:
        return Retry(f"{what} is being changed by another: {message}", RETRY_AFTER_S)
    return error
