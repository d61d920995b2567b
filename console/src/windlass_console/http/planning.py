"""The form: the resource's schema, plans before anything is applied, and what it may offer."""

from __future__ import annotations

from typing import Any

import yaml
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict
from windlass_client.schema import json_schema

from windlass_console.cluster import offers, planning
from windlass_console.cluster.offers import Choices, ModelOffer
from windlass_console.cluster.planning import Like, Planned
from windlass_console.errors import UnusableError
from windlass_console.http.asking import NAME_PATTERN, NAMESPACE_PATTERN, Everywhere, InNamespace, Who

router = APIRouter(prefix="/api", tags=["form"])
YAML_MAX = 128 << 10  # characters


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


class AsDocument(BaseModel):
    """A document to be written as YAML."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any]


class AsYaml(BaseModel):
    """YAML to be read."""

    model_config = ConfigDict(extra="forbid")

    yaml: str = Field(max_length=YAML_MAX)


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


@router.post("/yaml")
async def to_yaml(who: Who, given: AsDocument) -> AsYaml:
    """A document as YAML."""
    try:
        return AsYaml(yaml=yaml.safe_dump(given.document, sort_keys=False, allow_unicode=True, width=120))
    except (yaml.YAMLError, RecursionError) as error:
        raise UnusableError("the document cannot be written as YAML; it is nested too deeply") from error


@router.post("/document")
async def to_document(who: Who, given: AsYaml) -> AsDocument:
    """The document in YAML; without aliases, which may stand for more than any memory holds."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(given.yaml, yaml.SafeLoader)):
            raise UnusableError("the YAML has an alias (*name), which is not read here; write the value itself")
        document = yaml.safe_load(given.yaml)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UnusableError(f"{where}{error.problem or 'this is no YAML'}; correct it there") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnusableError("the text is no YAML that can be read; correct it") from error
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise UnusableError("the YAML is no LLMService; it begins with apiVersion: serving.windlass.dev/v1alpha1")
    return AsDocument(document=document)
