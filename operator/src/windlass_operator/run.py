"""Starts the operator's parts and keeps them alive together: metrics, health, watches, the Lease, the queue's workers.

Order matters: the workers begin only when every watch has had its first list (before, absence would mean nothing) and
only while this replica is on duty. A stand-by has the same store and an idle queue.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import httpx2
from prometheus_client import start_http_server

from windlass_operator import __version__, metrics
from windlass_operator.api.v1alpha1 import GROUP, PLURAL
from windlass_operator.cluster.claims import Claims
from windlass_operator.cluster.client import ApiServer, connect
from windlass_operator.cluster.kinds import LLMServices
from windlass_operator.cluster.lease import Duty, LeaseName, Pace
from windlass_operator.cluster.rest import UNREACHABLE, Rest, StatusError, login, path_of
from windlass_operator.cluster.store import Store
from windlass_operator.cluster.stored import StoredCluster
from windlass_operator.cluster.watch import Watch
from windlass_operator.handlers import WATCHES, Router, scopes, watches
from windlass_operator.health import WATCH_PATIENCE_S, Health, serve
from windlass_operator.look import Key
from windlass_operator.planners import Planners
from windlass_operator.queue import WorkQueue
from windlass_operator.reconcile import Reconciler
from windlass_operator.settings import Settings

logger = logging.getLogger(__name__)
CRD_AGAIN_S = 5.0
TICK_S = 1.0
POLL_S = 0.1


async def operate(
    settings: Settings, ready: threading.Event | None = None, stop: threading.Event | None = None
) -> None:
    """Run until stopped; `ready` is set once every watch has had its first list."""
    if settings.metrics_port:
        start_http_server(settings.metrics_port)
    metrics.BUILD.labels(__version__, platform.python_version()).set(1)
    async with AsyncExitStack() as stack:
        rest = await stack.enter_async_context(aclosing(login()))
        duty = _duty(settings, rest)
        cluster = connect(may_write=duty.holds, timeout_s=Pace().request_s) if duty else connect()
        await stack.enter_async_context(aclosing(cluster))
        # Pods are never behind the environment's proxy.
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
        planners = await stack.enter_async_context(aclosing(Planners()))
        parts = Parts.build(settings, rest, (cluster, planners), http)
        await stack.enter_async_context(serve(settings.health_port, parts.health))
        stopped = asyncio.create_task(_stopped(stop))
        running = asyncio.create_task(_run(parts, settings, duty, ready))
        try:
            await asyncio.wait({stopped, running}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            for task in (stopped, running):
                task.cancel()
            await asyncio.gather(stopped, running, return_exceptions=True)
            if duty:
                await duty.release()


@dataclass
class Parts:
    """What one operator is made of."""

    rest: Rest
    queue: WorkQueue[Key]
    store: Store
    claims: Claims
    reconciler: Reconciler
    watches: list[Watch]
    working: asyncio.Task[None] | None = None
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def build(cls, settings: Settings, rest: Rest, by: tuple[ApiServer, Planners], http: httpx2.AsyncClient) -> Parts:
        """Wire them together; nothing runs yet."""
        queue: WorkQueue[Key] = WorkQueue()
        store = Store((row.name for row in WATCHES), scopes(settings.watch_namespaces))
        router = Router(store, queue, lambda: reconciler.waiting_for_gpus)
        claims = Claims(freed=router.gpus_changed, scopes=settings.watch_namespaces)
        cluster, planners = by
        reconciler = Reconciler(StoredCluster(cluster, store, claims), http, settings, decide=planners.decide)
        return cls(rest, queue, store, claims, reconciler, watches(rest, settings.watch_namespaces, router, claims))

    @property
    def synced(self) -> bool:
        """Whether every watch has had its first list."""
        return self.store.synced and self.claims.synced

    def health(self) -> Health:
        """What `/readyz` is told."""
        now = time.monotonic()
        pulses = ((watch.row.label, watch.pulse) for watch in self.watches)
        dead = {name: pulse for name, pulse in pulses if not pulse.alive(now, WATCH_PATIENCE_S)}
        return Health({name: pulse.error or "not listed yet" for name, pulse in dead.items()}, self.queue.oldest_s())

    def measure(self) -> None:
        """Set the gauges that only time moves."""
        now, wall = time.monotonic(), time.time()
        for watch in self.watches:
            pulse = watch.pulse
            metrics.WATCH_ALIVE.labels(watch.row.label).set(pulse.alive(now, WATCH_PATIENCE_S))
            metrics.WATCH_HEARD.labels(watch.row.label).set(wall - (now - pulse.heard) if pulse.heard else 0)
        metrics.QUEUE_OLDEST_SECONDS.set(self.queue.oldest_s())

    def on_duty(self, holds: bool) -> None:
        """Let the workers begin, or stop them."""
        metrics.LEADER.set(holds)
        if self.working is not None:
            self.working.cancel()
            self.working = None
        if holds:
            self.working = asyncio.create_task(
                self.queue.run(self.reconciler.reconcile, self.reconciler.failed), name="queue"
            )


def _duty(settings: Settings, rest: Rest) -> Duty | None:
    if not settings.lease_name:
        return None
    return Duty(rest, LeaseName(settings.pod_namespace, settings.lease_name, settings.pod_name))


async def _run(parts: Parts, settings: Settings, duty: Duty | None, ready: threading.Event | None) -> None:
    await wait_for_crd(parts.rest, next(iter(settings.watch_namespaces), None))
    logger.info("watching LLMServices in %s", ", ".join(settings.watch_namespaces) or "all namespaces")
    try:
        async with asyncio.TaskGroup() as group:
            for watch in parts.watches:
                group.create_task(watch.run(), name=f"watch of {watch.row.name}")
            await _until(lambda: parts.synced)
            logger.info("all watches have their lists: %s LLMServices", len(parts.store.shelves["LLMService"].rows))
            group.create_task(_measure(parts), name="gauges")
            if duty:
                group.create_task(duty.keep(parts.on_duty), name="lease")
            else:
                parts.on_duty(True)
            if ready:
                ready.set()
    finally:
        if parts.working is not None:
            parts.working.cancel()
            await asyncio.gather(parts.working, return_exceptions=True)


async def _measure(parts: Parts) -> None:
    while True:
        parts.measure()
        if parts.working is not None and parts.working.done():
            parts.working.result()  # the workers never end by themselves: this raises what ended them
        await asyncio.sleep(TICK_S)


async def _until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110 - what is looked at is no event of this loop
        await asyncio.sleep(POLL_S)


async def _stopped(stop: threading.Event | None) -> None:
    """Return when asked to stop: by the event of a test, by a signal where this is the main thread."""
    asked = asyncio.Event()
    if threading.current_thread() is threading.main_thread():
        for one in _signals():
            asyncio.get_running_loop().add_signal_handler(one, asked.set)
    await _until(lambda: asked.is_set() or (stop is not None and stop.is_set()))


def _signals() -> Iterable[signal.Signals]:
    return (signal.SIGTERM, signal.SIGINT)


async def wait_for_crd(rest: Rest, namespace: str | None) -> None:
    """Without its CRD the operator has nothing to watch: say so and wait, rather than crash-loop."""
    said = ""
    while True:
        try:
            await rest.call("GET", path_of(LLMServices, namespace), {"limit": "1"})
            return
        except (StatusError, *UNREACHABLE) as error:
            why = _why_not_yet(error)
        if why != said:
            logger.warning("cannot list %s.%s yet: %s; waiting", PLURAL, GROUP, why)
            said = why
        await asyncio.sleep(CRD_AGAIN_S)


def _why_not_yet(error: Exception) -> str:
    """What is awaited; missing rights are raised, as no waiting mends them."""
    code = error.code if isinstance(error, StatusError) else None
    if code in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        raise error
    if code == httpx2.codes.NOT_FOUND:  # an API group that nobody serves is answered in plain text, not with a Status
        return "the CRD is not installed; install it (chart value crds.enabled)"
    return str(error) or type(error).__name__
