"""What all models of the resource share: the base class, quantities, paths, and Kubernetes' own schema words."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from windlass_api.crd.rules import KEY_RULES, PATH_RULES, Rule

GPUS_MAX = 1024


def schema_extra(*rules: Rule) -> dict[str, Any]:
    """A field's or a model's CEL rules, in Kubernetes' own schema words."""
    return {"x-kubernetes-validations": [rule.to_dict() for rule in rules]}


def _quantity(value: object) -> object:
    """YAML writes `cpu: 4` as a number; inside, a quantity is always text."""
    return str(value) if isinstance(value, int) else value


QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?$"
QUANTITY_SCHEMA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "pattern": QUANTITY_PATTERN,
    "maxLength": 32,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
Quantity = Annotated[str, BeforeValidator(_quantity), WithJsonSchema(QUANTITY_SCHEMA)]
PATH_PATTERN = r"^/[^\x00-\x1f\x7f]*$"
VolumePath = Annotated[str, Field(max_length=1024, json_schema_extra=schema_extra(*PATH_RULES))]
AbsolutePath = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=PATH_PATTERN, json_schema_extra=schema_extra(*PATH_RULES))
]


def string_map(most: int, value: dict[str, Any], *rules: Rule) -> WithJsonSchema:
    """The schema of a map with at most `most` entries, whose keys are no longer than a label's."""
    return WithJsonSchema(
        {
            "type": "object",
            "maxProperties": most,
            "additionalProperties": {"type": "string", **value},
            **schema_extra(*KEY_RULES, *rules),
        }
    )


StringMap = Annotated[dict[str, str], string_map(32, {"maxLength": 1024})]


class ApiModel(BaseModel):
    """What all parts of the resource share: camelCase outside, frozen inside, unknown fields left alone."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


def _asks_for_the_key(schema: dict[str, Any]) -> None:
    """The API server fills in no key, and refuses a reference that has none."""
    del schema["properties"]["key"]["default"]
    schema["required"] = ["name", "key"]


def not_stored(schema: dict[str, Any]) -> None:
    """The API server fills the field in nowhere: left out, it is neither stored nor shown."""
    del schema["default"]


class NameRef(ApiModel):
    """An object of the service's namespace."""

    name: str = Field(min_length=1, max_length=253, description="name is the object in the service's namespace.")


class SecretKey(ApiModel):
    """One key of a Secret or ConfigMap in the service's namespace; one that was stored without a key means `token`."""

    model_config = ConfigDict(json_schema_extra=_asks_for_the_key)

    name: str = Field(min_length=1, max_length=253, description="name is the object in the service's namespace.")
    key: str = Field("token", min_length=1, max_length=253, description="key is the entry inside it.")


def list_map(key: str) -> dict[str, Any]:
    """A list whose items are told apart by `key`, so that two field managers can each own some."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


WHOLE_LIST: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
INT64: dict[str, Any] = {"format": "int64"}
