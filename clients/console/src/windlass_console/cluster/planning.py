"""What would be planned for a document before it is applied: the API server's dry run, then the operator's decision."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict
from windlass_api.objects.reading import dig
from windlass_base.kube.errors import (
    AlreadyExistsError,
    ClientError,
    ConflictError,
    FieldProblem,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from windlass_client.client import AsyncClient
from windlass_client.errors import NoFactsError
from windlass_client.preview import PlanPreview
from windlass_client.values import LLMService, meta_of

Document = dict[str, Any]
BY_CONFIG, BY_SERVICE = "config", "service"


class Problem(TypedDict):
    """What is wrong with one field."""

    field: str
    message: str


class Planned(TypedDict):
    """The answer to a form that is being filled in."""

    problems: list[Problem]
    refused: str
    preview: dict[str, Any] | None
    noFacts: str
    noPlan: str
    factsFrom: str


class Like(TypedDict):
    """An existing service whose model is the same."""

    namespace: str
    name: str


async def planned(
    client: AsyncClient, namespace: str, service: Document, config: Document | None, like: Like | None
) -> Planned:
    """Plan without applying; a document that the API server refuses is planned as far as it can be read.

    A plan needs no name: the dry run of a document without one has a name that no service has.
    """
    answer = Planned(problems=[], refused="", preview=None, noFacts="", noPlan="", factsFrom="")
    try:
        await _dry_run(client, namespace, service if meta_of(service, "name") else _named(service))
    except (InvalidError, ConflictError, ForbiddenError, NotFoundError) as error:
        answer["refused"] = str(error)
        answer["problems"] = _problems(getattr(error, "problems", ()))
    try:
        preview, answer["factsFrom"] = await _preview(client, namespace, service, config, like)
        answer["preview"] = preview.to_dict()
    except NoFactsError as error:
        answer["noFacts"] = str(error)
    except (ForbiddenError, NotFoundError) as error:
        answer["noPlan"] = f"no plan can be shown, as it is made from what you may read: {error}"
    except InvalidError as error:
        answer["refused"] = answer["refused"] or str(error)
        answer["problems"] = answer["problems"] or _problems(error.problems)
    return answer


def _named(service: Document) -> Document:
    meta, name = service.get("metadata"), f"unnamed-{secrets.token_hex(4)}"
    return service | {"metadata": (meta if isinstance(meta, dict) else {}) | {"name": name}}


async def _dry_run(client: AsyncClient, namespace: str, service: Document) -> None:
    """As the form would save it: a new name needs the right to create alone, an existing one the right to patch."""
    try:
        await client.create(service, namespace, dry_run=True)
    except (AlreadyExistsError, ForbiddenError):
        await client.apply(service, namespace, force=True, dry_run=True)


def _problems(rows: tuple[FieldProblem, ...]) -> list[Problem]:
    return [Problem(field=row.field, message=row.message) for row in rows]


async def _preview(
    client: AsyncClient, namespace: str, service: Document, config: Document | None, like: Like | None
) -> tuple[PlanPreview, str]:
    """The preview, and where the facts of its model come from."""
    if config is not None:
        return await client.preview(service, namespace, model=config), BY_CONFIG
    if like is None:
        try:
            return await client.preview(service, namespace), BY_SERVICE
        except NoFactsError as nothing:
            like = await _same_source(client, namespace, service)
            if like is None:
                raise nothing
    known = await client.preview(await client.raw(like["name"], like["namespace"]), like["namespace"])
    preview = await client.preview(service, namespace, model=known.facts)
    return preview, f"likeness {like['namespace']}/{like['name']}"


async def _same_source(client: AsyncClient, namespace: str, service: Document) -> Like | None:
    """A service of the namespace that reads the same directory."""
    source = dig(service, "spec", "model", "source")
    if not isinstance(source, Mapping) or not source:
        return None
    name = meta_of(service, "name")
    try:
        others = await client.list(namespace)
    except ClientError:
        return None
    same = (one for one in others if one.metadata.name != name and source_of(one) == source)
    found = next((one for one in same if one.condition("ModelReady")), None)
    return Like(namespace=namespace, name=found.metadata.name) if found else None


def source_of(service: LLMService) -> dict[str, Any]:
    """The source as the user wrote it."""
    return service.spec.model.source.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
