"""`spec.engine.prefixOffload`: host memory for what the prefix cache evicts."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from windlass_api.crd.base import ApiModel, Quantity, schema_extra
from windlass_api.crd.engine_rules import PREFIX_OFFLOAD_RULES

PERCENT = 30  # of the pod's memory, where neither a size nor a share is given: the share of `windlass run`
PERCENT_MAX = 80


class PrefixOffloadSpec(ApiModel):
    """Evicted blocks of the prefix cache, kept in host memory and loaded when they are asked for again."""

    model_config = ConfigDict(json_schema_extra=schema_extra(*PREFIX_OFFLOAD_RULES))

    enabled: bool = Field(
        False, description="enabled keeps evicted prefixes in host memory; false leaves the other fields for later."
    )
    memory: Quantity | None = Field(
        None, description="memory is the host memory for them in each pod, for all its engines together."
    )
    memory_percent: int | None = Field(
        None,
        ge=1,
        le=PERCENT_MAX,
        description=f"memoryPercent is that size as a share of the pod's memory; without memory and this: {PERCENT}.",
    )


def is_plain(value: object) -> bool:
    """Whether nothing is asked for: then a stored spec reads as one of before the field, and its plan stays."""
    return value == PrefixOffloadSpec()
