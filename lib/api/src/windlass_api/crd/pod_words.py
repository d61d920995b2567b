"""What the models of `spec.podTemplate.spec` share: a closed base class, and bounded Kubernetes words.

The API server fills in no default below podTemplate: a filled-in value would win over what the operator renders.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from windlass_api.crd.base import (
    QUANTITY_SCHEMA,
    WHOLE_LIST,
    ApiModel,
    Quantity,
    StringMap,
    list_map,
    schema_extra,
)
from windlass_api.crd.rules import KEY_MAX, KEY_RULES

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
PORT_PATTERN = r"^[A-Za-z0-9]([-A-Za-z0-9]{0,13}[A-Za-z0-9])?$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253)]
DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
LabelKey = Annotated[str, Field(min_length=1, max_length=KEY_MAX)]
LabelValue = Annotated[str, Field(max_length=253)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]
Word = Annotated[str, Field(max_length=16384)]
FileMode = Annotated[int, Field(ge=0, le=0o777)]
Seconds = Annotated[int, Field(ge=0, le=604800)]  # a week, as long as a refused license is waited out
Labels = StringMap
QuantityMap = Annotated[
    dict[str, Quantity],
    Field(max_length=16),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 16,
            "additionalProperties": QUANTITY_SCHEMA,
            **schema_extra(*KEY_RULES),
        }
    ),
]
PortRef = Annotated[
    int | str,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": PORT_PATTERN,
            "maxLength": 15,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
        }
    ),
]


class Piece(ApiModel):
    """A closed part of a pod template: an unknown field is an error, so nothing unjudged is rendered."""

    model_config = ConfigDict(extra="forbid")


def rows(most: int, description: str, key: str = "") -> Any:  # noqa: ANN401 - as pydantic's Field
    """An optional list of at most `most` rows, told apart by `key` where it is given."""
    kind = list_map(key) if key else WHOLE_LIST
    return Field(None, max_length=most, json_schema_extra=kind, description=description)
