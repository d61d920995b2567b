"""Starts the operator's parts and keeps them alive together: metrics, the queue's workers, kopf's watches."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from threading import Event

import httpx2
import kopf
from prometheus_client import start_http_server

from windlass_operator.api.v1alpha1 import GROUP, PLURAL
from windlass_operator.cluster.client import ALL_NAMESPACES, ApiServer, connect
from windlass_operator.cluster.kinds import LLMServices
from windlass_operator.handlers import registry, watch_settings
from windlass_operator.queue import WorkQueue
from windlass_operator.reconcile import Key, Reconciler
from windlass_operator.settings import Settings

logger = logging.getLogger(__name__)
CRD_AGAIN_S = 5.0


async def operate(settings: Settings, ready: Event | None = None, stop: Event | None = None) -> None:
    """Run until stopped; `ready` is set once all watches have begun."""
    if settings.metrics_port:
        start_http_server(settings.metrics_port)
    cluster = connect()
    async with (
        aclosing(cluster),
        httpx2.AsyncClient(trust_env=False) as http,  # pods are never behind the environment's proxy
    ):
        await wait_for_crd(cluster, settings.watch_namespace)
        logger.info("watching LLMServices in %s", settings.watch_namespace or "all namespaces")
        queue: WorkQueue[Key] = WorkQueue()
        reconciler = Reconciler(cluster, http, settings)
        work = asyncio.create_task(queue.run(reconciler.reconcile), name="queue")
        watch = asyncio.create_task(_watch(settings, queue, reconciler, ready, stop), name="watch")
        try:
            done, _ = await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            work.cancel()
            watch.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)


async def _watch(
    settings: Settings,
    queue: WorkQueue[Key],
    reconciler: Reconciler,
    ready: Event | None,
    stop: Event | None,
) -> None:
    namespace = settings.watch_namespace
    await kopf.operator(
        registry=registry(queue, reconciler),
        settings=watch_settings(),
        standalone=True,
        clusterwide=namespace is None,
        namespaces=[namespace] if namespace else [],
        liveness_endpoint=f"http://0.0.0.0:{settings.health_port}/healthz" if settings.health_port else None,
        ready_flag=ready,
        stop_flag=stop,
    )


async def wait_for_crd(cluster: ApiServer, namespace: str | None) -> None:
    """Without its CRD the operator has nothing to watch: say so and wait, rather than crash-loop."""
    said = ""
    while True:
        try:
            await cluster.find(LLMServices, namespace or ALL_NAMESPACES)
            return
        except httpx2.HTTPError as error:
            why = _why_not_yet(error)
        if why != said:
            logger.warning("cannot list %s.%s yet: %s; waiting", PLURAL, GROUP, why)
            said = why
        await asyncio.sleep(CRD_AGAIN_S)


def _why_not_yet(error: httpx2.HTTPError) -> str:
    """What is awaited; missing rights are raised, as no waiting mends them."""
    code = error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else None
    if code in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
        raise error
    if code == httpx2.codes.NOT_FOUND:  # an API group that nobody serves is answered in plain text, not with a Status
        return "the CRD is not installed; install it (chart value crds.enabled)"
    return str(error) or type(error).__name__
