"""Names the GPUs of the nodes: a Job a node for those that are free, `kubectl exec` for those that pods hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from windlass_api.objects.claims import FIELDS
from windlass_api.objects.reading import uid_of
from windlass_api.objects.records import pod_of
from windlass_base.kube.errors import ClientError, NotFoundError
from windlass_client import logs, paths, watching
from windlass_client.errors import NoLogsError

from windlass_kubectl.licensing import gpus
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.programs import run_program
from windlass_kubectl.session import Session

AT_A_TIME = 32  # nodes that are asked at the same time
LOOK_AGAIN_S = 0.5
EXEC_S = 60.0
PATIENCE_S = gpus.DEADLINE_S + 20.0
SAID_MAX = 300  # characters of a failure


@dataclass(slots=True)
class NamedGpus:
    """What was named, and what could not be."""

    listing: str = ""
    nodes: dict[str, int] = field(default_factory=dict)
    """GPUs that were named, by node."""
    missing: list[str] = field(default_factory=list)

    @property
    def uuids(self) -> frozenset[str]:
        """The GPUs that were named."""
        return gpus.uuids(self.listing)


def from_files(files: Sequence[str]) -> NamedGpus:
    """Listings that somebody made by hand."""
    try:
        return NamedGpus("\n".join(Path(file).read_text(encoding="utf-8-sig") for file in files) + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LicensingError(f"--gpus: {error}; name files with the output of `nvidia-smi -L`") from error


async def nodes_with_gpus(session: Session) -> tuple[gpus.GpuNode, ...]:
    """The cluster's GPU nodes, and what of them is free now."""
    nodes = await watching.listing(session.client.api, watching.Collection(paths.NODES, "nodes"))
    placed = watching.Collection(paths.PODS_EVERYWHERE, "pods", {"fieldSelector": FIELDS})
    pods = await watching.listing(session.client.api, placed)
    return gpus.gpu_nodes(nodes.rows, pods.rows)


async def from_nodes(session: Session, nodes: Sequence[gpus.GpuNode], shape: gpus.JobShape) -> NamedGpus:
    """Ask all nodes; what cannot be named is told in `missing`."""
    turns, found = asyncio.Semaphore(AT_A_TIME), NamedGpus()

    async def ask(node: gpus.GpuNode) -> tuple[str, list[str]]:
        async with turns:
            return await _node(session, node, shape)

    for node, (listing, missing) in zip(nodes, await asyncio.gather(*map(ask, nodes)), strict=True):
        named = gpus.uuids(listing)
        found.listing += listing
        found.nodes[node.name] = len(named)
        found.missing += [f"node {node.name}: {one}" for one in missing]
        session.note(f"  {node.name}: {len(named)} of {node.offered} GPUs named")
    return found


async def _node(session: Session, node: gpus.GpuNode, shape: gpus.JobShape) -> tuple[str, list[str]]:
    if not node.ready:
        return "", [f"it is not ready, so its {node.offered} GPUs cannot be named"]
    listing, missing = "", list[str]()
    if node.free:
        try:
            listing += await _by_job(session, node, shape)
        except ClientError as error:
            missing.append(str(error)[:SAID_MAX])
    for holder in node.holders:
        try:
            listing += await _by_exec(session, holder)
        except ClientError as error:
            missing.append(f"pod {holder.namespace}/{holder.pod} holds GPUs and names none: {str(error)[:SAID_MAX]}")
    return listing, missing


async def _by_job(session: Session, node: gpus.GpuNode, shape: gpus.JobShape) -> str:
    name, api = gpus.job_name(node.name), session.client.api
    what = f"job {shape.namespace}/{name}"
    await _delete(session, shape.namespace, name)  # one that was left behind
    params = {"fieldManager": session.client.field_manager, "fieldValidation": "Strict"}
    made = await api.call("POST", paths.jobs(shape.namespace), what, params=params, body=gpus.job(node, shape))
    try:
        return await _log(session, shape.namespace, await _ended(session, shape, uid_of(made)))
    finally:
        await _delete(session, shape.namespace, name)


async def _ended(session: Session, shape: gpus.JobShape, uid: str) -> str:
    """The Job's pod, once it has printed what it had to."""
    why, loop = "it has no pod", asyncio.get_running_loop()
    selector = {"labelSelector": f"batch.kubernetes.io/controller-uid={uid}"}
    pods = watching.Collection(paths.core(shape.namespace, "pods"), "the Job's pods", selector)
    until = loop.time() + PATIENCE_S
    while loop.time() < until:
        for row in (await watching.listing(session.client.api, pods)).rows:
            why, hopeless = gpus.why_not_yet(row)
            pod = pod_of(row)
            if pod.phase == "Succeeded":
                return pod.name
            if hopeless:
                raise LicensingError(f"image {shape.image}: {why}; name another with --image")
            if pod.phase == "Failed":
                said = await _log(session, shape.namespace, pod.name)
                raise LicensingError(f"`nvidia-smi -L` failed there: {said.strip() or why}")
        await asyncio.sleep(LOOK_AGAIN_S)
    raise LicensingError(f"its Job did not run within {PATIENCE_S:.0f} s: {why}; try again")


async def _log(session: Session, namespace: str, pod: str) -> str:
    ask = logs.LogQuery(namespace, "", pod, container=gpus.CONTAINER)
    with suppress(NoLogsError):
        return "".join([f"{line.text}\n" async for line in logs.read(session.client.api, ask, session.client.pods)])
    return ""


async def _delete(session: Session, namespace: str, name: str) -> None:
    """Delete a Job, and in the background its pod."""
    path, what = f"{paths.jobs(namespace)}/{name}", f"job {namespace}/{name}"
    with suppress(NotFoundError):
        await session.client.api.call("DELETE", path, what, params={"propagationPolicy": "Background"})


async def _by_exec(session: Session, holder: gpus.Holder) -> str:
    if not holder.running:
        raise LicensingError("it does not run yet; try again when it does")
    words = ["exec", *session.kubectl_flags(holder.namespace), holder.pod, f"--container={holder.container}", "--"]
    listing = await run_program("kubectl", *words, *gpus.LISTING_COMMAND, patience_s=EXEC_S)
    if not gpus.uuids(listing):
        raise LicensingError(f"`nvidia-smi -L` prints no GPU there: {listing.strip()[:SAID_MAX]}")
    return listing
