"""Starts the operator's parts and keeps them alive together: kopf, metrics, the Lease, the queue's workers.

Order matters: the workers begin only when every stream has had its first list (before, absence would mean nothing) and
only while this replica leads. A stand-by has the same store and an idle queue.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import httpx2
import kopf
import msgspec
from windlass_api.crd.v1alpha1 import GROUP, PLURAL
from windlass_base.kube.lease import LeaseName, LeaseTimes

from windlass_operator import __version__
from windlass_operator.cluster.client import ApiServer
from windlass_operator.cluster.kinds import LLMServices
from windlass_operator.cluster.rest import UNREACHABLE, Login, Rest, StatusError, TooLargeError
from windlass_operator.cluster.served_schema import ServedSchema
from windlass_operator.cluster.store import Store
from windlass_operator.cluster.stored import StoredCluster
from windlass_operator.cluster.streams import UNSERVED, Stream
from windlass_operator.errors import SettingsError
from windlass_operator.planner.pool import Planners
from windlass_operator.reconcile.reconciler import Reconciler
from windlass_operator.reconcile.snapshot import Key
from windlass_operator.runtime import framework, metrics
from windlass_operator.runtime.handlers import WATCHES, Router, register, streams
from windlass_operator.runtime.health import WATCH_PATIENCE_S, Health, serve
from windlass_operator.runtime.leader_election import LeaderElection
from windlass_operator.runtime.queue import WorkQueue
from windlass_operator.settings import Settings
from windlass_operator.spans import spans

logger = logging.getLogger(__name__)
CRD_AGAIN_S = 5.0
SCHEMA_AGAIN_S = 30.0
TICK_S = 1.0
POLL_S = 0.1


async def operate(
    settings: Settings, ready: threading.Event | None = None, stop: threading.Event | None = None
) -> None:
    """Run until stopped; `ready` is set once every stream has had its first list."""
    metrics.BUILD.labels(__version__, platform.python_version()).set(1)
    async with AsyncExitStack() as stack:
        _trace(settings, stack)
        login = await Login.find()
        rest = await stack.enter_async_context(aclosing(login.rest()))
        election = _election(settings, rest)
        cluster = _api_server(login, election)
        await stack.enter_async_context(aclosing(cluster))
        # Pods are never behind the environment's proxy.
        http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
        planners = await stack.enter_async_context(aclosing(Planners()))
        parts = Parts.build(settings, (cluster, planners), http)
        await stack.enter_async_context(serve(settings.health_port, settings.metrics_port, parts.health))
        discover = await _prepare(rest, settings.watch_namespaces, parts)
        await look_at_schema(rest, parts.schema)
        work = Work(parts, election, ready, stop, rest)
        await kopf.operator(
            registry=_registry(login, parts, work),
            settings=framework.settings(discover=discover),
            standalone=True,
            identity=framework.identity(settings.pod_name),
            clusterwide=not settings.watch_namespaces,
            namespaces=settings.watch_namespaces,
            stop_flag=work.over,
        )
        work.failure()


def _trace(settings: Settings, stack: AsyncExitStack) -> None:
    """Make spans where that is asked for; the last of them go out when all else has ended."""
    if settings.traces_endpoint:
        spans.start(settings.traces_endpoint, settings.pod_name, __version__)
        stack.callback(spans.stop)
        logger.info("reconciles are traced")
    elif settings.traces_env:
        words = "set tracing.operatorEndpoint to an address that takes OTLP over HTTP"
        logger.warning("serving pods are traced, reconciles are not: %s", words)


@dataclass
class Parts:
    """What one operator is made of."""

    queue: WorkQueue[Key]
    store: Store
    router: Router
    reconciler: Reconciler
    streams: dict[str, Stream]
    schema: ServedSchema
    working: asyncio.Task[None] | None = None

    @classmethod
    def build(cls, settings: Settings, by: tuple[ApiServer, Planners], http: httpx2.AsyncClient) -> Parts:
        """Wire them together; nothing runs yet."""
        queue: WorkQueue[Key] = WorkQueue()
        store = Store(row.name for row in WATCHES)
        router = Router(store, queue, lambda: reconciler.waiting_for_gpus)
        cluster, planners = by
        schema = ServedSchema()
        stored = StoredCluster(cluster, store, router.claims, router.written)
        reconciler = Reconciler(stored, http, settings, decide=planners.decide, served=schema.status)
        return cls(queue, store, router, reconciler, streams(settings.watch_namespaces, router), schema)

    @property
    def synced(self) -> bool:
        """Whether every stream has had its first list."""
        return all(one.pulse.synced or one.pulse.absent for one in self.streams.values())

    def health(self) -> Health:
        """What `/readyz` is told."""
        now = time.monotonic()
        pulses = ((one.row.label, one.pulse) for one in self.streams.values())
        dead = {name: pulse for name, pulse in pulses if not pulse.alive(now, WATCH_PATIENCE_S)}
        return Health({name: pulse.error or "not listed yet" for name, pulse in dead.items()}, self.queue.oldest_s())

    def measure(self) -> None:
        """Set the gauges that only time moves."""
        now, wall = time.monotonic(), time.time()
        for one in self.streams.values():
            pulse = one.pulse
            metrics.WATCH_ALIVE.labels(one.row.label).set(pulse.alive(now, WATCH_PATIENCE_S))
            metrics.WATCH_HEARD.labels(one.row.label).set(wall - (now - pulse.heard) if pulse.heard else 0)
        metrics.QUEUE_OLDEST_SECONDS.set(self.queue.oldest_s())

    def lead(self, leads: bool) -> None:
        """Let the workers begin, or stop them."""
        metrics.LEADER.set(leads)
        if self.working is not None:
            self.working.cancel()
            self.working = None
        if leads:
            self.working = asyncio.create_task(
                self.queue.run(self.reconciler.reconcile, self.reconciler.failed), name="queue"
            )


@dataclass
class Work:
    """What runs beside kopf, from its start-up handler to its clean-up handler."""

    parts: Parts
    election: LeaderElection | None
    ready: threading.Event | None
    stop: threading.Event | None
    rest: Rest
    over: asyncio.Event = field(default_factory=asyncio.Event)  # ends kopf
    task: asyncio.Task[None] | None = None

    async def begin(self, **_: object) -> None:
        """kopf starts."""
        self.task = asyncio.create_task(self._run(), name="work")
        self.task.add_done_callback(lambda _: self.over.set())

    async def end(self, **_: object) -> None:
        """kopf ends: the workers stop, and the Lease is let go."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        if self.election:
            await self.election.release()

    def failure(self) -> None:
        """Raise what ended the work, if it was no cancellation."""
        if self.task is not None and self.task.done() and not self.task.cancelled():
            self.task.result()

    async def _run(self) -> None:
        parts = self.parts
        try:
            async with asyncio.TaskGroup() as group:
                if self.stop is not None:
                    group.create_task(self._stopped(self.stop), name="stop")
                await _until(lambda: parts.synced)
                services = len(parts.store.shelves["LLMService"].rows)
                logger.info("all watches have their lists: %s LLMServices", services)
                group.create_task(self._measure(), name="gauges")
                group.create_task(self._follow_schema(), name="schema")
                if self.election:
                    group.create_task(self.election.keep(parts.lead), name="lease")
                else:
                    parts.lead(True)
                if self.ready:
                    self.ready.set()
        finally:
            if parts.working is not None:
                parts.working.cancel()
                await asyncio.gather(parts.working, return_exceptions=True)

    async def _stopped(self, stop: threading.Event) -> None:
        await _until(stop.is_set)
        self.over.set()

    async def _measure(self) -> None:
        while True:
            self.parts.measure()
            if self.parts.working is not None and self.parts.working.done():
                self.parts.working.result()  # the workers never end by themselves: this raises what ended them
            await asyncio.sleep(TICK_S)

    async def _follow_schema(self) -> None:
        while True:
            await asyncio.sleep(SCHEMA_AGAIN_S)
            await look_at_schema(self.rest, self.parts.schema)


async def look_at_schema(rest: Rest, schema: ServedSchema) -> None:
    """Say when the CRD is of another release than this operator, and when it no longer is."""
    try:
        if await schema.look(rest):
            logger.warning("CRDMismatch: %s", schema.mismatch.sentence() or "the CRD is that of this operator now")
    except (StatusError, *UNREACHABLE, TooLargeError, msgspec.MsgspecError) as error:
        logger.info("the schema of the CRD cannot be read: %s", error)
    metrics.CRD_FIELDS.labels("missing").set(len(schema.mismatch.missing))
    metrics.CRD_FIELDS.labels("unknown").set(len(schema.mismatch.unknown))


def _registry(login: Login, parts: Parts, work: Work) -> kopf.OperatorRegistry:
    """All of kopf's handlers."""
    registry = kopf.OperatorRegistry()
    framework.add_login(registry, login, parts.streams)
    register(registry, parts.router)
    kopf.on.startup(id="begin", registry=registry)(work.begin)
    kopf.on.cleanup(id="end", registry=registry)(work.end)
    return registry


def _election(settings: Settings, rest: Rest) -> LeaderElection | None:
    if not settings.lease_name:
        return None
    return LeaderElection(rest, LeaseName(settings.pod_namespace, settings.lease_name, settings.pod_name))


def _api_server(login: Login, election: LeaderElection | None) -> ApiServer:
    """The API server; with a Lease, only its holder writes, and a write ends before the Lease does."""
    if election is None:
        return ApiServer(login.rest(), metrics.count_write)
    return ApiServer(login.rest(LeaseTimes().request_s), metrics.count_write, election.holds)


async def _until(look: Callable[[], bool]) -> None:
    while not look():  # noqa: ASYNC110 - what is looked at is no event of this loop
        await asyncio.sleep(POLL_S)


async def _prepare(rest: Rest, namespaces: tuple[str, ...], parts: Parts) -> bool:
    """Mark what nobody serves; returns whether kopf may follow the CRDs, and so waits for ours by itself."""
    one = next(iter(namespaces), None)
    await wait_for_crd(rest, one, once=True)
    discover = not namespaces and not await _refused(rest, framework.CRDS)
    if not discover:
        await wait_for_crd(rest, one)
    for stream in parts.streams.values():
        if stream.row.optional and (why := await _refused(rest, stream.row.kind.path(stream.row.scope or None))):
            stream.unserved(why)
    logger.info("watching LLMServices in %s", ", ".join(namespaces) or "all namespaces")
    return discover


async def _refused(rest: Rest, path: str) -> str:
    """Why this collection cannot be read; empty when it can."""
    try:
        await rest.call("GET", path, {"limit": "1"})
    except StatusError as error:
        if error.code in UNSERVED:
            return str(error)
        raise
    return ""


async def wait_for_crd(rest: Rest, namespace: str | None, *, once: bool = False) -> None:
    """Without its CRD the operator has nothing to watch: say so and wait, rather than crash-loop."""
    said = ""
    while True:
        try:
            await rest.call("GET", LLMServices.path(namespace), {"limit": "1"})
            return
        except (StatusError, *UNREACHABLE) as error:
            why = _why_not_yet(error)
            if why != said:
                logger.warning("cannot list %s.%s yet: %s; waiting", PLURAL, GROUP, why)
                said = why
            if once and isinstance(error, StatusError):
                return
        await asyncio.sleep(CRD_AGAIN_S)


def _why_not_yet(error: Exception) -> str:
    """What is awaited; missing rights are raised, as no waiting mends them."""
    code = error.code if isinstance(error, StatusError) else None
    if code in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        words = "give the operator's account the rights of the chart's roles"
        raise SettingsError(
            f"no access to {PLURAL}.{GROUP}: the API server answers {code}: {error}; {words}"
        ) from error
    if code == httpx2.codes.NOT_FOUND:  # an API group that nobody serves is answered in plain text, not with a Status
        return "the CRD is not installed; install it (chart value crds.enabled)"
    return str(error) or type(error).__name__
