"""The form: the resource's schema, plans before anything is applied, and what it may offer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict
from windlass_client.schema import json_schema

from windlass_console.cluster import offers, planning
from windlass_console.cluster.offers import Choices, ModelOffer
from windlass_console.cluster.planning import Like, Planned
from windlass_console.http.asking import NAME_PATTERN, NAMESPACE_PATTERN, Everywhere, InNamespace, Who

router = APIRouter(prefix="/api", tags=["form"])


class LikeService(BaseModel):
    """An existing service whose model is the same."""

    model_config = ConfigDict(extra="forbid")

    namespace: str = Field(pattern=NAMESPACE_PATTERN)
    name: str = Field(pattern=NAME_PATTERN)


class PlanRequest(BaseModel):
    """What the form has so far; `config` is the content of the model's config.json."""

    model_config = ConfigDict(extra="forbid")

    namespace: str = Field(pattern=NAMESPACE_PATTERN)
    service: dict[str, Any]
    config: dict[str, Any] | None = None
    like: LikeService | None = None


class Models(TypedDict):
    """Models of existing services."""

    items: list[ModelOffer]


@router.get("/schema")
async def schema() -> dict[str, Any]:
    """The JSON Schema of an LLMService."""
    return json_schema()


@router.post("/plan")
async def plan(who: Who, asked: PlanRequest) -> Planned:
    """What would be planned now; nothing is applied."""
    like = Like(namespace=asked.like.namespace, name=asked.like.name) if asked.like else None
    return await planning.planned(who.identity.client, asked.namespace, asked.service, asked.config, like)


@router.get("/models")
async def models(who: Who, namespace: Everywhere) -> Models:
    """Models of existing services, which the form may offer."""
    return Models(items=await offers.models(who.identity.client, namespace))


@router.get("/choices")
async def choices(who: Who, namespace: InNamespace) -> Choices:
    """Claims, cards and classes."""
    return await offers.choices(who.identity.client.api, namespace)
