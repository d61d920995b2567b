"""The reading half of the client: services, pods, events, logs, watches, plan previews."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx2
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_base.kube.access import Access, find_access
from windlass_base.kube.rest import Api

from windlass_client import logs, paths, watching
from windlass_client.job_pods import job_pods
from windlass_client.values import (
    AnyService,
    LLMService,
    LogLine,
    Pods,
    Rows,
    ServiceEvents,
    Services,
    WatchEvent,
    event_of,
    meta_of,
    pod_of,
    service_of,
)

if TYPE_CHECKING:
    from windlass_sizing.model.facts import ModelFacts

    from windlass_client.preview import PlanPreview

FIELD_MANAGER = "windlass-console"
ALL_NAMESPACES = paths.ALL_NAMESPACES

NOT_INSTALLED = "the API server does not know LLMService; install the CRD (chart windlass, value crds.enabled)"


class Reader:
    """What can be asked about the LLMServices of one cluster; `AsyncClient` adds what can be done to them."""

    def __init__(
        self,
        access: Access | None = None,
        *,
        namespace: str | None = None,
        field_manager: str = FIELD_MANAGER,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Without `access`: what kubectl would use here. `field_manager` names the writer to server-side apply."""
        self._access = access or find_access()
        self.namespace = namespace or self._access.namespace
        self.field_manager = field_manager
        self.api = Api(self._access, timeout_s, transport, NOT_INSTALLED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let the connections go."""
        await self.api.aclose()

    async def list(self, namespace: str | None = None, *, label_selector: str = "") -> Services:
        """All services of a namespace, by name."""
        found = await watching.listing(self.api, self._collection(namespace, label_selector))
        return [service_of(row) for row in found.rows]

    async def get(self, name: str, namespace: str | None = None) -> LLMService:
        """One service; NotFoundError when there is none."""
        return service_of(await self.raw(name, namespace))

    async def raw(self, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One service as the API server sends it, with all that our models leave out."""
        return await self.api.call("GET", paths.services(self._in(namespace), name), self._what(name, namespace))

    def watch(
        self,
        namespace: str | None = None,
        *,
        name: str = "",
        label_selector: str = "",
        patience_s: float = watching.PATIENCE_S,
        on_listed: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[WatchEvent]:
        """What is there as ADDED, then every change, for ever; resumes by itself after a cut or an expired version.

        Leave it early inside `contextlib.aclosing`: its connection then ends with the block. `on_listed` is called
        whenever all that is there has been told. After `patience_s` seconds without an answer: UnreachableError.
        """
        return watching.watch(self.api, self._collection(namespace, label_selector, name), patience_s, on_listed)

    async def pods(self, name: str, namespace: str | None = None) -> Pods:
        """The serving pods, by name."""
        rows = await self._find(paths.core(self._in(namespace), "pods"), paths.of_service(name))
        return sorted((pod_of(row) for row in rows), key=lambda pod: pod.name)

    async def pods_at_work(self, name: str, namespace: str | None = None) -> Pods:
        """The serving pods; while there are none, those of the Jobs that fetch and inspect the model, oldest first."""
        return await self.pods(name, namespace) or await job_pods(self.api, self._in(namespace), name)

    async def events(self, name: str, namespace: str | None = None, *, with_pods: bool = True) -> ServiceEvents:
        """Events about the service and, unless told not to, about its pods; oldest first."""
        place = self._in(namespace)
        about = [("LLMService", name)]
        if with_pods:
            about += [("Pod", pod.name) for pod in await self.pods(name, place)]
        found = await asyncio.gather(*(self._events_about(place, kind, one) for kind, one in about))
        return sorted((event for rows in found for event in rows), key=lambda event: event.last_time)

    def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        pod: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
    ) -> AsyncGenerator[LogLine]:
        """Lines of all pods at work, or of one serving pod; `follow` goes on and takes new pods in, `previous` reads
        the run before the last restart. NoLogsError while no container has started."""
        ask = logs.LogQuery(self._in(namespace), name, pod, follow, previous, tail_lines)
        return logs.read(self.api, ask, self.pods_at_work)

    async def preview(
        self,
        service: LLMServiceSpec | AnyService,
        namespace: str | None = None,
        *,
        model: Path | str | Mapping[str, Any] | ModelFacts | None = None,
        name: str = "",
    ) -> PlanPreview:
        """What would be planned for this spec on this cluster's GPUs now; nothing is applied.

        `model` is a model directory, a config.json, its content, or facts. Without it, the facts are those that the
        operator found for the existing service `name` (default: the service's own name). NoFactsError otherwise.
        """
        from windlass_client.preview import Known, preview  # planning and sizing: most callers need neither

        return await preview(self.api, service, Known(self._place(service, namespace), name, model))

    async def _events_about(self, namespace: str, kind: str, name: str) -> ServiceEvents:
        params = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
        rows = await watching.listing(
            self.api, watching.Collection(paths.core(namespace, "events"), f"events of {name}", params)
        )
        return [event_of(row) for row in rows.rows]

    async def _find(self, path: str, selector: str) -> Rows:
        found = await watching.listing(
            self.api, watching.Collection(path, path.rsplit("/", 1)[-1], {"labelSelector": selector})
        )
        return found.rows

    def _collection(self, namespace: str | None, labels: str, name: str = "") -> watching.Collection:
        place = self._in(namespace)
        params = {"labelSelector": labels, "fieldSelector": f"metadata.name={name}" if name else ""}
        where = "all namespaces" if place == ALL_NAMESPACES else place
        return watching.Collection(paths.services(place), f"llmservices in {where}", params)

    def _in(self, namespace: str | None) -> str:
        return namespace or self.namespace

    def _place(self, service: object, namespace: str | None) -> str:
        """The namespace asked for, else the document's own, else the client's."""
        return namespace or meta_of(service, "namespace") or self.namespace

    def _what(self, name: str, namespace: str | None) -> str:
        return f"llmservice {self._in(namespace)}/{name}"
