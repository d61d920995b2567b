"""Whether the CRD in the cluster has the fields that this operator knows, and no others.

The API server publishes the schema that it serves to everybody who may log in, with a hash that changes with it. A CRD
of another release is no reason to stop: what an older one lacks is left out of the status, because the API server
refuses a server-side apply with fields that it does not know. `run.py` asks, `reconciler.py` leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from windlass_api.crd.schema import crd
from windlass_api.crd.v1alpha1 import GROUP, KIND, VERSION

from windlass_operator.cluster.rest import Rest

INDEX = "/openapi/v3"
PATH = f"apis/{GROUP}/{VERSION}"
NAMED = 3  # fields in the log line
KUBERNETES_OWN = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Fields that the served CRD lacks, and fields that this operator does not know, by their paths."""

    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def sentence(self) -> str:
        """What it is and what to do; empty where both are the same."""
        parts = []
        if self.missing:
            parts.append(
                f"the CRD is older than this operator: it lacks {_some(self.missing)}; the API server drops them from "
                "specs, and the operator leaves them out of the status; upgrade the CRD (chart value crds.enabled, or "
                "kubectl apply --server-side -f crds/)"
            )
        if self.unknown:
            parts.append(
                f"the CRD is newer than this operator: {_some(self.unknown)} have no effect; upgrade the operator"
            )
        return "; ".join(parts)


def _some(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(paths[:NAMED]) + more


@cache
def own_schema() -> Mapping[str, Any]:
    """The schema of this operator's models."""
    found: Mapping[str, Any] = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@dataclass
class ServedSchema:
    """The schema that the API server serves; until it was read, that of this operator."""

    hash: str = ""
    schema: Mapping[str, Any] = field(default_factory=own_schema)
    mismatch: Mismatch = Mismatch()

    async def look(self, rest: Rest) -> bool:
        """Read it if it has changed; whether the mismatch is another one now."""
        index = msgspec.json.decode(await rest.call("GET", INDEX))
        where = str((index.get("paths") or {}).get(PATH, {}).get("serverRelativeURL") or "")
        if not where or where == self.hash:
            return False
        path, _, query = where.partition("?")
        name, _, value = query.partition("=")
        document = msgspec.json.decode(await rest.call("GET", path, {name: value} if value else None))
        found = published(document)
        self.hash = where
        if found is None:
            return False
        before, self.schema, self.mismatch = self.mismatch, found, compared(own_schema(), found)
        return before != self.mismatch

    def status(self, status: dict[str, Any]) -> dict[str, Any]:
        """The status without what the CRD lacks."""
        if not self.mismatch.missing:
            return status
        known = (self.schema.get("properties") or {}).get("status") or {}
        kept: dict[str, Any] = pruned(status, known)
        return kept


def published(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Our kind's schema out of an OpenAPI document."""
    for schema in ((document.get("components") or {}).get("schemas") or {}).values():
        for row in schema.get("x-kubernetes-group-version-kind") or ():
            if (row.get("group"), row.get("version"), row.get("kind")) == (GROUP, VERSION, KIND):
                found: Mapping[str, Any] = schema
                return found
    return None


def compared(ours: Mapping[str, Any], served: Mapping[str, Any]) -> Mismatch:
    """The fields that only one of both has; of a whole object that is missing, the object alone."""
    mine, theirs = set(paths(ours)), set(paths(served))
    return Mismatch(_highest(mine - theirs), _highest(theirs - mine))


def paths(schema: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Every field's path below spec and status."""
    for name, part in (schema.get("properties") or {}).items():
        if not above and name in KUBERNETES_OWN:
            continue
        path = f"{above}.{name}" if above else name
        yield path
        yield from paths(part, path)
    if isinstance(schema.get("items"), Mapping):
        yield from paths(schema["items"], f"{above}[]")


def _highest(found: set[str]) -> tuple[str, ...]:
    """Without the fields of objects that are named themselves."""
    return tuple(sorted(path for path in found if not any(path.startswith((f"{one}.", f"{one}[")) for one in found)))


def pruned(value: Any, schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """The value without fields that the schema does not have, as the API server would prune it."""
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return {name: pruned(part, known[name]) for name, part in value.items() if name in known}
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [pruned(part, schema["items"]) for part in value]
    return value
