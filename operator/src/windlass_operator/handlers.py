"""The watches: every event of a watched kind becomes a key in the queue, nothing more.

kopf only watches here. No create/update/delete handlers, timers or daemons: so no finalizer, no annotation, and no
state of kopf's in anyone's object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kopf

from windlass_operator.api.v1alpha1 import GROUP, PLURAL, VERSION
from windlass_operator.cluster.inventory import gpu_signature
from windlass_operator.manifests.metadata import MANAGED_BY_LABEL, MANAGER, SERVICE_LABEL
from windlass_operator.queue import WorkQueue
from windlass_operator.reconcile import Key, Reconciler

OWNED = (("apps", "v1", "deployments"), ("batch", "v1", "jobs"), ("", "v1", "services"), ("", "v1", "pods"))


def registry(queue: WorkQueue[Key], reconciler: Reconciler) -> kopf.OperatorRegistry:
    """All handlers in a registry of their own, so that two operators can live in one process (tests do that)."""
    handlers = kopf.OperatorRegistry()
    _watch_services(handlers, queue)
    _watch_owned(handlers, queue)
    _watch_nodes(handlers, queue, reconciler)

    @kopf.on.login(registry=handlers)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf's own arguments, passed on
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.probe(registry=handlers, id="queue")
    def queue_depth(**_: object) -> int:
        return len(queue)

    return handlers


def _watch_services(handlers: kopf.OperatorRegistry, queue: WorkQueue[Key]) -> None:
    @kopf.on.event(GROUP, VERSION, PLURAL, registry=handlers)
    async def service_changed(namespace: str | None, name: str | None, type: str | None, **_: object) -> None:
        key = Key(namespace or "", name or "")
        await (queue.forget(key) if type == "DELETED" else queue.add(key))


def _watch_owned(handlers: kopf.OperatorRegistry, queue: WorkQueue[Key]) -> None:
    for group, version, plural in OWNED:

        @kopf.on.event(group, version, plural, registry=handlers, labels={SERVICE_LABEL: kopf.PRESENT})
        async def owned_changed(namespace: str | None, labels: Mapping[str, str], **_: object) -> None:
            await queue.add(Key(namespace or "", labels[SERVICE_LABEL]))


def _watch_nodes(handlers: kopf.OperatorRegistry, queue: WorkQueue[Key], reconciler: Reconciler) -> None:
    seen: dict[str, object] = {}

    @kopf.on.event("", "v1", "nodes", registry=handlers)
    async def node_changed(name: str | None, body: kopf.Body, type: str | None, **_: object) -> None:
        signature = None if type == "DELETED" else gpu_signature(dict(body))
        if seen.get(name or "") != signature:
            seen[name or ""] = signature
            for key in sorted(reconciler.waiting_for_gpus):
                await queue.add(key)


def watch_settings() -> kopf.OperatorSettings:
    """kopf as a mere watcher: it scans nothing, posts nothing, and no watch can die in silence.

    `queueing.worker_limit` stays unset: with kopf's idle time-out a limit of 20 means 4 objects a second.
    """
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 30
    settings.networking.request_timeout = 30
    settings.posting.enabled = False
    settings.scanning.disabled = True
    for group, version, plural in OWNED:
        settings.watching.label_selectors[group, version, plural] = f"{MANAGED_BY_LABEL}={MANAGER}"
    return settings
