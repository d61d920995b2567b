"""The cluster as the reconcile sees it: dicts in, dicts out, None for what is not there, our errors for refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from windlass_api.objects.claims import Claims
from windlass_api.objects.inventory import usable
from windlass_api.plan.model import NodeGpus
from windlass_base.kube.errors import refused_again

from windlass_operator.cluster import decode
from windlass_operator.cluster.kinds import APPLIED, Kind, LLMServiceStatus, Nodes, Pods
from windlass_operator.cluster.pages import Pages
from windlass_operator.cluster.protocol import ALL_NAMESPACES
from windlass_operator.cluster.rest import APPLY, UNREACHABLE, Rest, StatusError, TooLargeError
from windlass_operator.errors import InvalidError, NotServedError, OperatorError, Retry, Unavailable, UserError
from windlass_operator.manifests.metadata import Manifest
from windlass_operator.records.base import R, parse
from windlass_operator.spans import spans

logger = logging.getLogger(__name__)
FIELD_MANAGER = "windlass"
PATCHES = {"apply": APPLY, "merge": "application/merge-patch+json"}
# Of what is read without a watch. The operator reads Events so, which anybody may write; commands read nodes and pods.
ANY_BYTES_MAX = 64 * 1024**2
LIST_BYTES_MAX = {"Event": 2 * 1024**2}
NOT_FOUND, CONFLICT, INVALID = 404, 409, 422
REFUSED = (400, 403, 405, 413)  # the same request will be refused again
RETRY_AFTER_S = 2.0
NO_VERSION = "1"  # of an object; etcd counts from there
# Creates under way at once. The API server finds a Service's address under one lock: with more of them each waits there
# for longer than a request may take, and is given up, its address with it.
AT_ONCE = {"Service": 4}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The real cluster; writes only while `may_write` says so, and counts each write by kind and verb."""

    rest: Rest
    count_write: Callable[[str, str], None]
    may_write: Callable[[], bool] = lambda: True
    turns: Mapping[str, asyncio.Semaphore] = field(
        default_factory=lambda: {kind: asyncio.Semaphore(most) for kind, most in AT_ONCE.items()}
    )

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """One object, or None."""
        try:
            return await self._read(kind.path(namespace, name))
        except StatusError as error:
            if error.code == NOT_FOUND:
                return None
            raise _as_error(error, f"{kind.plural}/{name}") from error

    async def find(
        self,
        kind: Kind,
        namespace: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Manifest]:
        """The objects of a namespace that match."""
        path = kind.path(None if namespace == ALL_NAMESPACES else namespace)
        return await self._list(kind, path, {"labelSelector": _selector(labels), "fieldSelector": _selector(fields)})

    async def records(self, kind: Kind, shape: type[R], namespace: str, labels: Mapping[str, str]) -> list[R]:
        """The objects that match, as records: for kinds that no apply compares."""
        return [parse(shape, item) for item in await self.find(kind, namespace, labels)]

    async def gpu_nodes(self) -> tuple[NodeGpus, ...]:
        """Nodes with GPUs that take new pods, by name, as if no pod was there."""
        return usable(await self._list(Nodes, Nodes.path(), {}))

    async def _read(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        try:
            return _decoded(await self.rest.call("GET", path, params))
        except (*UNREACHABLE, TooLargeError) as error:
            raise _unavailable(error) from error

    async def _list(self, kind: Kind, path: str, selectors: Mapping[str, str]) -> list[Manifest]:
        found: list[Manifest] = []
        size = 0
        try:
            async for page in Pages(self.rest, path, selectors)():
                # In a list the API server leaves out what the list's own kind says.
                for row in map(bytes, page.items):
                    found.append({"apiVersion": kind.api_version, "kind": kind.kind, **decode.manifest(row)})
                    size += len(row)
                if size > LIST_BYTES_MAX.get(kind.kind, ANY_BYTES_MAX):
                    logger.warning("a list of %s is cut after %d objects: it is longer than is read", path, len(found))
                    break
        except (*UNREACHABLE, TooLargeError) as error:
            raise _unavailable(error) from error
        return found

    async def gpus_taken(self, namespaces: tuple[str, ...], besides: tuple[str, str] | None) -> Mapping[str, int]:
        """GPUs that pods hold, by node, without those of the LLMService `besides` (namespace, name)."""
        claims = Claims()
        for namespace in namespaces or (ALL_NAMESPACES,):
            for pod in await self.find(Pods, namespace):
                claims.put(pod)
        return claims.taken(besides)

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply of an object of ours; returns what the API server made of it."""
        return await self._patch(manifest, "apply")

    async def create(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of an object that is not there yet; None, and nothing changed, when there is one.

        It names a version that no object has: whatever is there is in conflict with it, so nothing is asked before.
        """
        kind, meta = str(manifest["kind"]), {**manifest["metadata"], "resourceVersion": NO_VERSION}
        try:
            async with self.turns.get(kind) or nullcontext():
                return await self._write(APPLIED[kind], {**manifest, "metadata": meta}, "apply", "apply")
        except StatusError as error:
            if error.code == CONFLICT:
                return None
            raise _refusal(error, kind, meta["name"]) from error

    async def overwrite(self, manifest: Manifest) -> Manifest:
        """Merge patch of an object of ours: lists become ours as a whole."""
        return await self._patch(manifest, "merge")

    async def _patch(self, manifest: Manifest, how: str) -> Manifest:
        kind, meta = str(manifest["kind"]), manifest["metadata"]
        try:
            return await self._write(APPLIED[kind], manifest, how, how)
        except StatusError as error:
            raise _refusal(error, kind, meta["name"]) from error

    async def apply_status(self, manifest: Manifest) -> Manifest | None:
        """Server-side apply of our resource's status; returns the resource, None when it is gone."""
        try:
            return await self._write(LLMServiceStatus, manifest, "apply", "status")
        except StatusError as error:
            if error.code == NOT_FOUND:  # deleted while we looked
                return None
            raise

    async def _write(self, kind: Kind, manifest: Manifest, how: str, verb: str) -> Manifest:
        self._allowed(str(manifest["kind"]), verb)
        meta = manifest["metadata"]
        params = {"fieldManager": FIELD_MANAGER, **({"force": "true"} if how == "apply" else {})}
        path = kind.path(meta["namespace"], meta["name"])
        try:
            with spans.span(f"{verb} {manifest['kind']}", namespace=meta["namespace"], object=meta["name"]):
                return _decoded(await self.rest.call("PATCH", path, params, manifest, PATCHES[how]))
        except (*UNREACHABLE, TooLargeError) as error:
            raise _unavailable(error) from error

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object and what it owns; nothing when it is gone already."""
        self._allowed(kind.kind, "delete")
        try:
            with spans.span(f"delete {kind.kind}", namespace=namespace, object=name):
                await self.rest.call("DELETE", kind.path(namespace, name), {"propagationPolicy": "Background"})
        except StatusError as error:
            if error.code != NOT_FOUND:
                raise _refusal(error, kind.kind, name) from error
        except (*UNREACHABLE, TooLargeError) as error:
            raise _unavailable(error) from error

    def _allowed(self, kind: str, verb: str) -> None:
        """Count a write that is about to go out; refuse it when another replica may be the leader."""
        if not self.may_write():
            raise Retry(f"this replica does not hold the lease: no {verb} of {kind}", RETRY_AFTER_S)
        self.count_write(kind, verb)

    async def aclose(self) -> None:
        """Let the connections go."""
        await self.rest.aclose()


def _selector(wanted: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (wanted or {}).items())


def _decoded(text: bytes) -> Manifest:
    return decode.manifest(text)


def _refusal(error: StatusError, kind: str, name: str) -> Exception:
    """What a write of an object came to."""
    if error.code == NOT_FOUND and kind == "HTTPRoute":  # not every cluster has its CRD
        return NotServedError("GatewayApiMissing", f"the cluster has no kind {kind}")
    return _as_error(error, f"{kind} {name}")


def _unavailable(error: Exception) -> OperatorError:
    if isinstance(error, TooLargeError):
        return UserError("SpecTooLarge", str(error))
    return Unavailable(f"the API server does not answer: {str(error) or type(error).__name__}")


def _as_error(error: StatusError, what: str) -> Exception:
    """The API server's refusal as our error: the user's to mend, or ours to try again."""
    if error.code == INVALID:
        return InvalidError("Rejected", f"the API server refuses {what}: {error.message}")
    if error.code in REFUSED or refused_again(error.message):
        return UserError("Rejected", f"the API server refuses {what}: {error.message}")
    if error.code == CONFLICT:
        return Retry(f"{what} is being changed by another: {error.message}", RETRY_AFTER_S)
    return error
