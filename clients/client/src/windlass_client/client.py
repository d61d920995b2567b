"""`AsyncClient`: LLMServices of a cluster, for asyncio. `blocking.Client` is the same without asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass_base.kube.errors import NotFoundError
from windlass_base.kube.rest import APPLY, MERGE

from windlass_client import paths
from windlass_client.reader import ALL_NAMESPACES, FIELD_MANAGER, Reader
from windlass_client.spelling import remedies
from windlass_client.values import AnyService, LLMService, manifest_of, plain, service_of

__all__ = ["ALL_NAMESPACES", "FIELD_MANAGER", "AsyncClient"]


class AsyncClient(Reader):
    """LLMServices of one cluster.

    `namespace` is meant wherever a method is given none; `list` and `watch` take "*" for all namespaces.
    Every method raises a ClientError whose text is one sentence.
    """

    async def create(self, service: AnyService, namespace: str | None = None, *, dry_run: bool = False) -> LLMService:
        """Create it; AlreadyExistsError or InvalidError say why not. `dry_run` asks, and stores nothing."""
        document = manifest_of(service, self._place(service, namespace))
        name, place = document["metadata"]["name"], document["metadata"]["namespace"]
        with remedies():
            answer = await self.api.call(
                "POST", paths.services(place), self._what(name, place), params=self._write(dry_run), body=document
            )
        return service_of(answer)

    async def patch(
        self,
        name: str,
        change: Mapping[str, Any],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        dry_run: bool = False,
    ) -> LLMService:
        """Merge `change` into the service, as `{"spec": {"engine": {"maxModelLen": 4096}}}`; None deletes a field.

        Models may stand in it: of `EngineSpec(max_model_len=4096)` only what was set is sent. With
        `resource_version` the change is made to that version only, else ConflictError.
        """
        body: dict[str, Any] = {**_mapping(plain(change))}
        if resource_version:
            body["metadata"] = {**(body.get("metadata") or {}), "resourceVersion": resource_version}
        with remedies():
            answer = await self.api.call(
                "PATCH",
                paths.services(self._in(namespace), name),
                self._what(name, namespace),
                params=self._write(dry_run),
                body=body,
                content_type=MERGE,
            )
        return service_of(answer)

    async def apply(
        self, service: AnyService, namespace: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> LLMService:
        """Server-side apply: create it, or own exactly the fields given. ConflictError names who owns one already.

        `force` takes such fields over.
        """
        document = manifest_of(service, self._place(service, namespace))
        name, place = document["metadata"]["name"], document["metadata"]["namespace"]
        params = {**self._write(dry_run), "force": force}
        with remedies():
            answer = await self.api.call(
                "PATCH",
                paths.services(place, name),
                self._what(name, place),
                params=params,
                body=document,
                content_type=APPLY,
            )
        return service_of(answer)

    async def delete(self, name: str, namespace: str | None = None, *, missing_ok: bool = False) -> None:
        """Delete the service; what serves it goes with it, the model on its volume stays."""
        try:
            await self.api.call(
                "DELETE",
                paths.services(self._in(namespace), name),
                self._what(name, namespace),
                params={"propagationPolicy": "Background"},
            )
        except NotFoundError:
            if not missing_ok:
                raise

    async def scale(self, name: str, replicas: int, namespace: str | None = None) -> None:
        """Set the number of replicas through the scale subresource, which needs no right to change the rest."""
        await self.api.call(
            "PATCH",
            paths.services(self._in(namespace), name, "scale"),
            self._what(name, namespace),
            params=self._write(dry_run=False),
            body={"spec": {"replicas": replicas}},
            content_type=MERGE,
        )

    def _write(self, dry_run: bool) -> dict[str, str | int | bool | None]:
        """Strict: a misspelt field is refused instead of dropped."""
        return {
            "fieldManager": self.field_manager,
            "fieldValidation": "Strict",
            "dryRun": "All" if dry_run else None,
        }


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
