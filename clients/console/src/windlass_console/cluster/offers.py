"""What a form may offer to choose from: claims, cards, classes, and models of services that are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import TypedDict
from windlass_api.objects.inventory import usable
from windlass_api.objects.reading import Object, dig, name_of
from windlass_base.kube.errors import ForbiddenError, NotFoundError
from windlass_base.kube.rest import Api
from windlass_client import paths, watching
from windlass_client.client import AsyncClient
from windlass_sizing.placement import gpus

from windlass_console.cluster.planning import source_of

T = TypeVar("T")
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"


class ClaimOffer(TypedDict):
    """A PersistentVolumeClaim."""

    name: str
    size: str
    modes: list[str]


class CardOffer(TypedDict):
    """A kind of card by the name that spec.resources.gpuType takes, and how many there are."""

    name: str
    product: str
    gpus: int


class Choices(TypedDict):
    """Each is null where the user may not list it."""

    claims: list[ClaimOffer] | None
    gpuTypes: list[CardOffer] | None
    storageClasses: list[str] | None
    runtimeClasses: list[str] | None


class ModelOffer(TypedDict):
    """The model of an existing service; `known` where the operator has found out what it is."""

    namespace: str
    service: str
    id: str
    source: dict[str, Any]
    known: bool


async def choices(api: Api, namespace: str) -> Choices:
    """What the user may see of it."""
    return Choices(
        claims=await _listed(api, paths.core(namespace, "persistentvolumeclaims"), _claim),
        gpuTypes=_cards(await _rows(api, paths.NODES)),
        storageClasses=await _listed(api, STORAGE, name_of),
        runtimeClasses=await _listed(api, RUNTIMES, name_of),
    )


async def models(client: AsyncClient, namespace: str) -> list[ModelOffer]:
    """Models of the services that are there."""
    return [
        ModelOffer(
            namespace=one.metadata.namespace,
            service=one.metadata.name,
            id=one.spec.model.id,
            source=source_of(one),
            known=(ready := one.condition("ModelReady")) is not None and ready.status == "True",
        )
        for one in await client.list(namespace)
    ]


async def _rows(api: Api, path: str) -> list[dict[str, Any]] | None:
    try:
        return (await watching.listing(api, watching.Collection(path, path.rsplit("/", 1)[-1]))).rows
    except (ForbiddenError, NotFoundError):
        return None


async def _listed(api: Api, path: str, read: Callable[[Object], T]) -> list[T] | None:
    rows = await _rows(api, path)
    return None if rows is None else [read(row) for row in rows]


def _claim(item: Object) -> ClaimOffer:
    modes = dig(item, "spec", "accessModes")
    return ClaimOffer(
        name=name_of(item),
        size=str(dig(item, "status", "capacity", "storage") or dig(item, "spec", "resources", "requests", "storage")),
        modes=[str(one) for one in modes] if isinstance(modes, list) else [],
    )


def _cards(nodes: list[dict[str, Any]] | None) -> list[CardOffer] | None:
    if nodes is None:
        return None
    found: dict[str, CardOffer] = {}
    for one in usable(nodes):
        card = gpus.find(one.product)
        row = found.setdefault(
            one.known_as, CardOffer(name=card.name if card else one.known_as, product=one.known_as, gpus=0)
        )
        row["gpus"] += one.allocatable
    return [found[name] for name in sorted(found)]
