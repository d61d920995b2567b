"""Objects of the tests as a reconcile reads them: each field of Children parsed to its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass_operator.records.base import Record, parse
from windlass_operator.records.pods import Event, Pod
from windlass_operator.records.routes import HTTPRoute, Ingress
from windlass_operator.records.workloads import Deployment, Job, StatefulSet
from windlass_operator.status.children import Children

SHAPES: Mapping[str, type[Record]] = {
    "deployment": Deployment,
    "stateful_sets": StatefulSet,
    "service": Record,
    "ingress": Ingress,
    "http_route": HTTPRoute,
    "jobs": Job,
    "pods": Pod,
    "events": Event,
}


def children(**found: Any) -> Children:
    """Everything that belongs to a service, from objects as the API server sends them."""
    return Children(**{part: _parsed(SHAPES[part], rows) for part, rows in found.items()})


def _parsed(shape: type[Record], rows: Any) -> Any:
    return parse(shape, rows) if isinstance(rows, Mapping) else tuple(parse(shape, row) for row in rows)


def pods(*rows: Mapping[str, Any]) -> list[Pod]:
    """Pods."""
    return [parse(Pod, row) for row in rows]


def events(*rows: Mapping[str, Any]) -> list[Event]:
    """Events."""
    return [parse(Event, row) for row in rows]
