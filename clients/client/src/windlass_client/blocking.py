"""`Client`: the methods of `AsyncClient` for code without asyncio. An event loop of its own runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx2
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_base.kube.access import Access

from windlass_client import watching
from windlass_client.client import FIELD_MANAGER, AsyncClient
from windlass_client.values import (
    AnyService,
    LLMService,
    LogLine,
    Pods,
    ServiceEvents,
    Services,
    WatchEvent,
)

if TYPE_CHECKING:
    from windlass_sizing.model.facts import ModelFacts

    from windlass_client.preview import PlanPreview

T = TypeVar("T")


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result; when the caller is interrupted, the work is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def iterate(self, start: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """The items as they come; leaving the loop ends the stream."""
        items = start()

        async def step() -> tuple[T] | None:
            async for item in items:
                return (item,)
            return None

        async def end() -> None:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

        try:
            while (found := self.run(step())) is not None:
                yield found[0]
        finally:
            self.run(end())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Client:
    """LLMServices of one cluster; see `AsyncClient` for what each method does. May be used from several threads."""

    def __init__(
        self,
        access: Access | None = None,
        *,
        namespace: str | None = None,
        field_manager: str = FIELD_MANAGER,
        timeout_s: float = 30.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Without `access`: what kubectl would use here."""
        self._inner = AsyncClient(
            access, namespace=namespace, field_manager=field_manager, timeout_s=timeout_s, transport=transport
        )
        self._loop = _Loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go and end the thread."""
        self._loop.run(self._inner.aclose())
        self._loop.close()

    @property
    def namespace(self) -> str:
        """The namespace that is meant where none is given."""
        return self._inner.namespace

    def list(self, namespace: str | None = None, *, label_selector: str = "") -> Services:
        """All services of a namespace, by name; "*" means all namespaces."""
        return self._loop.run(self._inner.list(namespace, label_selector=label_selector))

    def get(self, name: str, namespace: str | None = None) -> LLMService:
        """One service; NotFoundError when there is none."""
        return self._loop.run(self._inner.get(name, namespace))

    def raw(self, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One service as the API server sends it."""
        return self._loop.run(self._inner.raw(name, namespace))

    def create(self, service: AnyService, namespace: str | None = None, *, dry_run: bool = False) -> LLMService:
        """Create it."""
        return self._loop.run(self._inner.create(service, namespace, dry_run=dry_run))

    def patch(
        self,
        name: str,
        change: Mapping[str, Any],
        namespace: str | None = None,
        *,
        resource_version: str = "",
        dry_run: bool = False,
    ) -> LLMService:
        """Merge a change into it; None deletes a field."""
        return self._loop.run(
            self._inner.patch(name, change, namespace, resource_version=resource_version, dry_run=dry_run)
        )

    def apply(
        self, service: AnyService, namespace: str | None = None, *, force: bool = False, dry_run: bool = False
    ) -> LLMService:
        """Server-side apply."""
        return self._loop.run(self._inner.apply(service, namespace, force=force, dry_run=dry_run))

    def delete(self, name: str, namespace: str | None = None, *, missing_ok: bool = False) -> None:
        """Delete it; the model on its volume stays."""
        self._loop.run(self._inner.delete(name, namespace, missing_ok=missing_ok))

    def scale(self, name: str, replicas: int, namespace: str | None = None) -> None:
        """Set the number of replicas."""
        self._loop.run(self._inner.scale(name, replicas, namespace))

    def watch(
        self,
        namespace: str | None = None,
        *,
        name: str = "",
        label_selector: str = "",
        patience_s: float = watching.PATIENCE_S,
    ) -> Iterator[WatchEvent]:
        """What is there as ADDED, then every change, for ever."""
        return self._loop.iterate(
            lambda: self._inner.watch(namespace, name=name, label_selector=label_selector, patience_s=patience_s)
        )

    def pods(self, name: str, namespace: str | None = None) -> Pods:
        """The serving pods, by name."""
        return self._loop.run(self._inner.pods(name, namespace))

    def pods_at_work(self, name: str, namespace: str | None = None) -> Pods:
        """The serving pods; while there are none, those of the Jobs that fetch and inspect the model, oldest first."""
        return self._loop.run(self._inner.pods_at_work(name, namespace))

    def events(self, name: str, namespace: str | None = None, *, with_pods: bool = True) -> ServiceEvents:
        """Events about the service and its pods, oldest first."""
        return self._loop.run(self._inner.events(name, namespace, with_pods=with_pods))

    def logs(
        self,
        name: str,
        namespace: str | None = None,
        *,
        pod: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
    ) -> Iterator[LogLine]:
        """Lines of all serving pods, or of one."""
        return self._loop.iterate(
            lambda: self._inner.logs(
                name,
                namespace,
                pod=pod,
                follow=follow,
                previous=previous,
                tail_lines=tail_lines,
            )
        )

    def preview(
        self,
        service: LLMServiceSpec | AnyService,
        namespace: str | None = None,
        *,
        model: Path | str | Mapping[str, Any] | ModelFacts | None = None,
        name: str = "",
    ) -> PlanPreview:
        """What would be planned now; nothing is applied."""
        return self._loop.run(self._inner.preview(service, namespace, model=model, name=name))
