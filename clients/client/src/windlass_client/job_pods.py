"""Finds the pods of the Jobs that fetch and inspect a service's model: they work before any serving pod does.

A download may belong to several services, so its pods bear no service's name: its Job names its owners.
"""

from __future__ import annotations

from contextlib import suppress

from windlass_api.names import COMPONENT_LABEL, DOWNLOAD, INSPECT
from windlass_api.objects.reading import controller_uid, dig, uid_of
from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_base.kube.rest import Api

from windlass_client import paths, watching
from windlass_client.values import Pod, Rows, pod_of

JOBS = f"{COMPONENT_LABEL} in ({DOWNLOAD},{INSPECT})"


async def job_pods(api: Api, namespace: str, name: str) -> list[Pod]:
    """The pods, oldest first; none where there is no such service or the user may not read Jobs."""
    with suppress(ForbiddenError, NotFoundError):
        service = await api.call("GET", paths.services(namespace, name), f"llmservice {namespace}/{name}")
        _, rows = await job_rows(api, namespace, uid_of(service))
        return sorted((pod_of(row) for row in rows), key=lambda pod: (pod.created, pod.name))
    return []


async def job_rows(api: Api, namespace: str, uid: str) -> tuple[Rows, Rows]:
    """The Jobs that the service of this uid owns, alone or with others, and their pods, as the API server has them."""
    jobs = [row for row in await _found(api, paths.jobs(namespace)) if uid in _owners(row)]
    makers = {uid_of(row) for row in jobs}
    pods = await _found(api, paths.core(namespace, "pods")) if makers else []
    return jobs, [row for row in pods if controller_uid(row) in makers]


async def _found(api: Api, path: str) -> Rows:
    what = watching.Collection(path, path.rsplit("/", 1)[-1], {"labelSelector": JOBS})
    return (await watching.listing(api, what)).rows


def _owners(row: dict[str, object]) -> set[str]:
    return {str(owner.get("uid")) for owner in dig(row, "metadata", "ownerReferences") or ()}
