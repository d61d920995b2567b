"""LLMServices: list, read, create, edit, scale, suspend, delete; each call has the user's own token."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict
from windlass_client.client import AsyncClient
from windlass_client.values import LLMService, service_of

from windlass_console.cluster import editing, proxy
from windlass_console.cluster.proxy import Metrics
from windlass_console.http.asking import Document, DryRun, Everywhere, Name, Namespace, ServiceKey, Who
from windlass_console.views.call import Call, call_of
from windlass_console.views.row import Row, row_of

router = APIRouter(prefix="/api/services", tags=["services"])
ONE = "/{namespace}/{name}"
RETRY = "serving.windlass.dev/retry"


class Rows(TypedDict):
    """The list."""

    items: list[Row]


class Detail(TypedDict):
    """One service: its line, the resource as the API server has it, and what to do."""

    row: Row
    service: dict[str, Any]
    remedy: str


class PodView(TypedDict):
    """A serving pod."""

    name: str
    phase: str
    ready: bool
    restarts: int
    node: str
    created: str
    containers: list[str]
    state: str
    deleting: bool


class Pods(TypedDict):
    """The serving pods of a service."""

    items: list[PodView]


class EventView(TypedDict):
    """An Event about the service or one of its pods."""

    type: str
    reason: str
    message: str
    object: str
    count: int
    firstTime: str
    lastTime: str


class Events(TypedDict):
    """Oldest first."""

    items: list[EventView]


class Scale(BaseModel):
    """How many equal copies."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(ge=0, le=1000)


class Edit(BaseModel):
    """An edit: of `loaded` the metadata is needed, as its generation stands for the spec."""

    model_config = ConfigDict(extra="forbid")

    loaded: dict[str, Any]
    wanted: dict[str, Any]


class Suspend(BaseModel):
    """Whether the service is switched off."""

    model_config = ConfigDict(extra="forbid")

    suspend: bool


@router.get("")
async def list_services(who: Who, namespace: Everywhere) -> Rows:
    """The services of a namespace, or of all that the user may see."""
    found = await who.identity.client.list(namespace)
    return Rows(items=[row_of(one) for one in found])


@router.post("/{namespace}", status_code=201)
async def create(who: Who, namespace: Namespace, document: Document, dry_run: DryRun = False) -> dict[str, Any]:
    """Create one from what the form sends."""
    made = await who.identity.client.create(document, namespace, dry_run=dry_run)
    return await _stored(who.identity.client, made, dry_run)


@router.get(ONE)
async def read(who: Who, namespace: Namespace, name: Name) -> Detail:
    """One service."""
    return await detail(who.identity.client, namespace, name)


@router.put(ONE)
async def replace(who: Who, namespace: Namespace, name: Name, change: Edit, dry_run: DryRun = False) -> dict[str, Any]:
    """Store what differs between the loaded and the wanted document: spec, and labels and annotations where named."""
    client = who.identity.client
    made = await editing.save(client, namespace, name, change.loaded, change.wanted, dry_run=dry_run)
    return await _stored(client, made, dry_run)


@router.patch(ONE)
async def patch(
    who: Who, namespace: Namespace, name: Name, change: Document, dry_run: DryRun = False
) -> dict[str, Any]:
    """Merge a change; null deletes a field."""
    client = who.identity.client
    made = await client.patch(name, change, namespace, dry_run=dry_run)
    return await _stored(client, made, dry_run)


@router.put(ONE + "/scale", status_code=204)
async def scale(who: Who, namespace: Namespace, name: Name, wanted: Scale) -> None:
    """Set the number of replicas through the scale subresource."""
    await who.identity.client.scale(name, wanted.replicas, namespace)


@router.put(ONE + "/suspend")
async def suspend(who: Who, namespace: Namespace, name: Name, wanted: Suspend) -> dict[str, Any]:
    """Switch it off, or on again; the model on its volume stays."""
    await who.identity.client.patch(name, {"spec": {"suspend": wanted.suspend}}, namespace)
    return (await detail(who.identity.client, namespace, name))["service"]


@router.put(ONE + "/retry")
async def retry(who: Who, namespace: Namespace, name: Name) -> dict[str, Any]:
    """Try again what was given up on."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    await who.identity.client.patch(name, {"metadata": {"annotations": {RETRY: now}}}, namespace)
    return (await detail(who.identity.client, namespace, name))["service"]


@router.delete(ONE, status_code=204)
async def delete(who: Who, namespace: Namespace, name: Name) -> None:
    """Delete it; the model on its volume stays."""
    await who.identity.client.delete(name, namespace)


@router.get(ONE + "/pods")
async def pods(who: Who, namespace: Namespace, name: Name) -> Pods:
    """The serving pods."""
    return Pods(
        items=[
            PodView(
                name=one.name,
                phase=one.phase,
                ready=one.ready,
                restarts=one.restarts,
                node=one.node,
                created=one.created,
                containers=list(one.containers),
                state=one.state,
                deleting=one.deleting,
            )
            for one in await who.identity.client.pods(name, namespace)
        ]
    )


@router.get(ONE + "/events")
async def events(who: Who, namespace: Namespace, name: Name) -> Events:
    """Events about the service and, where the user may list them, about its pods."""
    table = await who.identity.rights.table(namespace)
    found = await who.identity.client.events(name, namespace, with_pods=table["pods"])
    return Events(
        items=[
            EventView(
                type=one.type,
                reason=one.reason,
                message=one.message,
                object=one.object,
                count=one.count,
                firstTime=one.first_time,
                lastTime=one.last_time,
            )
            for one in found
        ]
    )


@router.get(ONE + "/metrics")
async def metrics(who: Who, namespace: Namespace, name: Name, key: ServiceKey = "") -> Metrics:
    """Totals of each running pod, through the API server's proxy."""
    return await proxy.metrics(who.identity.client, namespace, name, key)


@router.get(ONE + "/call")
async def call(who: Who, namespace: Namespace, name: Name) -> Call:
    """How a program calls it."""
    return call_of(await who.identity.client.get(name, namespace))


async def detail(client: AsyncClient, namespace: str, name: str) -> Detail:
    """One service as it is now."""
    raw = without_bookkeeping(await client.raw(name, namespace))
    service = service_of(raw)
    failure = service.status.failure
    return Detail(row=row_of(service), service=raw, remedy=failure.remedy if failure else "")


def without_bookkeeping(raw: dict[str, Any]) -> dict[str, Any]:
    """The resource without what server-side apply notes about its writers."""
    metadata = {key: value for key, value in raw.get("metadata", {}).items() if key != "managedFields"}
    return {**raw, "metadata": metadata}


async def _stored(client: AsyncClient, made: LLMService, dry_run: bool) -> dict[str, Any]:
    """The resource as it is stored now; of a dry run what would be stored."""
    if dry_run:
        return made.model_dump(mode="json", by_alias=True, exclude_none=True)
    return (await detail(client, made.metadata.namespace, made.metadata.name))["service"]
