"""License servers of the cluster: where they are, how they are installed, and how one learns an issuer's key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from windlass_api.objects.reading import dig
from windlass_api.objects.records import mapped
from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_base.kube.rest import MERGE
from windlass_client import paths, watching
from windlass_client.licenses import DEPLOYMENTS, HOME, NAME, SELECTOR, LicenseServer, server_of

from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.licensing.issuer import Key
from windlass_kubectl.licensing.programs import run_program
from windlass_kubectl.session import Session

KEYS_ANNOTATION = "windlass.dev/trusted-keys"
ROLLOUT_S, LOOK_AGAIN_S, HELM_S = 180.0, 0.5, 300.0
INSTALL = f"helm install {NAME} charts/{NAME} -n {HOME}"


async def find_all(session: Session) -> list[LicenseServer]:
    """The servers of the named namespace, else of all; of kube-system where all may not be looked at."""
    given = session.options.namespace
    if not given:
        try:
            return await _listed(session, DEPLOYMENTS)
        except ForbiddenError:
            given = HOME
    return await _listed(session, paths.deployments(given))


async def _listed(session: Session, path: str) -> list[LicenseServer]:
    found = await watching.listing(session.client.api, watching.Collection(path, "deployments", SELECTOR))
    return [server_of(row) for row in found.rows]


async def find(session: Session) -> LicenseServer | None:
    """The one server; LicensingError when there are several to choose from."""
    found = await find_all(session)
    if len(found) > 1:
        servers = ", ".join(sorted(map(str, found)))
        raise LicensingError(f"there are several license servers, {servers}; choose a namespace with -n")
    return found[0] if found else None


def none_there(session: Session) -> LicensingError:
    """What to do when the cluster has no license server."""
    where = f"namespace {session.options.namespace}" if session.options.namespace else "this cluster"
    return LicensingError(f"there is no license server in {where}; install one: {INSTALL}; or name its chart: --chart")


async def install(session: Session, chart: str, sets: Sequence[str]) -> LicenseServer:
    """Install the chart with helm and wait for the server, which needs no key to be ready."""
    namespace = session.options.namespace or HOME
    flags = [f"--namespace={namespace}", "--create-namespace", "--wait", "--timeout=180s"]
    given = (("--kubeconfig", session.options.kubeconfig), ("--kube-context", session.options.context))
    flags += [f"{flag}={value}" for flag, value in given if value]
    flags += [f"--set={one}" for one in sets]
    session.note(f"installing {chart} into {namespace}")
    await run_program("helm", "upgrade", "--install", NAME, chart, *flags, patience_s=HELM_S)
    found = await find(session)
    if found is None:
        raise LicensingError(f"{chart} brought no license server; name the chart {NAME} with --chart")
    return found


async def trust(session: Session, server: LicenseServer, key: Key) -> bool:
    """Give the server the public key, and start it again when it is new; True when something was changed."""
    known = await _trusted(session, server)
    entry = f"{key.id}.pem"
    if known.get(entry) != key.public_pem:
        await _put(session, server, {entry: key.public_pem}, exists=bool(known))
    wanted = ",".join(sorted({*known, entry}))
    path, what = f"{paths.deployments(server.namespace)}/{server.name}", f"deployment {server}"
    deployment = await session.client.api.call("GET", path, what)
    template = mapped(dig(deployment, "spec", "template", "metadata", "annotations"))
    if template.get(KEYS_ANNOTATION) == wanted:
        return False
    change = {"spec": {"template": {"metadata": {"annotations": {KEYS_ANNOTATION: wanted}}}}}
    await session.client.api.call("PATCH", path, what, params=_writer(session), body=change, content_type=MERGE)
    await _rolled_out(session, path, what)
    return True


async def _trusted(session: Session, server: LicenseServer) -> dict[str, str]:
    path = paths.core(server.namespace, "configmaps", server.trusted)
    try:
        found = await session.client.api.call("GET", path, f"configmap {server.namespace}/{server.trusted}")
    except NotFoundError:
        return {}
    return {str(name): str(text) for name, text in mapped(found.get("data")).items()}


async def _put(session: Session, server: LicenseServer, data: Mapping[str, str], *, exists: bool) -> None:
    """The ConfigMap is no part of the release, so that an upgrade of the chart leaves it alone."""
    what, call = f"configmap {server.namespace}/{server.trusted}", session.client.api.call
    params = _writer(session)
    if exists:
        path = paths.core(server.namespace, "configmaps", server.trusted)
        await call("PATCH", path, what, params=params, body={"data": dict(data)}, content_type=MERGE)
        return
    labels = {"app.kubernetes.io/part-of": "windlass", "app.kubernetes.io/managed-by": "kubectl-windlass"}
    meta = {"name": server.trusted, "namespace": server.namespace, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}
    await call("POST", paths.core(server.namespace, "configmaps"), what, params=params, body=body)


def _writer(session: Session) -> dict[str, str | int | bool | None]:
    return {"fieldManager": session.client.field_manager, "fieldValidation": "Strict"}


async def _rolled_out(session: Session, path: str, what: str) -> None:
    until, loop = asyncio.get_running_loop().time() + ROLLOUT_S, asyncio.get_running_loop()
    while loop.time() < until:
        if rolled_out(await session.client.api.call("GET", path, what)):
            return
        await asyncio.sleep(LOOK_AGAIN_S)
    raise LicensingError(
        f"{what} did not become ready within {ROLLOUT_S:.0f} s; see kubectl describe, and run it again"
    )


def rolled_out(deployment: Mapping[str, Any]) -> bool:
    """Whether only new pods run and one of them is ready: the others of several stand by."""
    status, wanted = mapped(deployment.get("status")), int(dig(deployment, "spec", "replicas") or 0)
    current = int(status.get("observedGeneration") or 0) >= int(dig(deployment, "metadata", "generation") or 0)
    new, all_ = int(status.get("updatedReplicas") or 0), int(status.get("replicas") or 0)
    return current and new == all_ == wanted and int(status.get("readyReplicas") or 0) >= min(1, wanted)
