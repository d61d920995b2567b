"""The keys of Kubernetes' lists are those that the tests' API server publishes; `make list-keys` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.cluster.kinds import APPLIED, Events, HTTPRoutes, Kind
from windlass_operator.manifests import kubernetes_lists
from windlass_operator.manifests.deployment import deployment
from windlass_operator.manifests.pod import PodShape

pytestmark = pytest.mark.apiserver

TABLE = Path(kubernetes_lists.__file__)
KINDS = [kind for kind in APPLIED.values() if kind not in (Events, HTTPRoutes)]  # these have no list of the operator's
Row = tuple[tuple[str, str], dict[str, object] | None]


def lists(schemas: Mapping[str, Any], name: str, above: str, seen: set[tuple[str, str]]) -> Iterator[Row]:
    """Every list below a type: the field, the one that it is in, and its key."""
    if (name, above) in seen:
        return
    seen.add((name, above))
    for field, schema in schemas[name].get("properties", {}).items():
        rows = schema.get("items") or schema
        inner = reference(rows)
        if "items" in schema:
            keys = schema.get("x-kubernetes-list-map-keys")
            defaults = schemas[inner]["properties"] if inner else {}
            yield (above, field), {key: defaults[key].get("default") for key in keys} if keys else None
        if inner and field != "status":
            yield from lists(schemas, inner, field, seen)


def reference(schema: Mapping[str, Any]) -> str:
    """The type that a schema names; empty where it names none."""
    one = next(iter(schema.get("allOf", ())), schema)
    return str(one.get("$ref", "")).rpartition("/")[2]


def published(apiserver: Any, kind: Kind) -> Iterator[Row]:
    group = f"apis/{kind.group}" if kind.group else "api"
    document = json.loads(apiserver.kubectl("get", "--raw", f"/openapi/v3/{group}/{kind.version}").stdout)
    schemas = document["components"]["schemas"]
    identity = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    (root,) = (name for name, one in schemas.items() if identity in one.get("x-kubernetes-group-version-kind", ()))
    yield from lists(schemas, root, "", set())


def page(apiserver: Any) -> str:
    table: dict[tuple[str, str], dict[str, object]] = {}
    whole: set[tuple[str, str]] = set()
    for place, keys in (row for kind in KINDS for row in published(apiserver, kind)):
        if keys is None:
            whole.add(place)
        else:
            assert table.setdefault(place, keys) == keys, f"{place} has two keys: the table needs more than two fields"
    assert not whole & table.keys(), "a place with a key and without one: the table needs more than two fields"
    version = json.loads(apiserver.kubectl("get", "--raw", "/version").stdout)["gitVersion"]
    rows = "".join(f"    {_text(place)}: {_text(keys)},\n" for place, keys in sorted(table.items()))
    return f'''"""Lists whose rows have a key, by Kubernetes' published OpenAPI (x-kubernetes-list-map-keys).

`make list-keys` writes this file from the API server of the tests; nobody edits it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

KUBERNETES = "{version}"
# The field above and the field → the fields of a row's key, each with the value of a row that leaves it out.
KEYS: Mapping[tuple[str, str], Mapping[str, str | int]] = {{
{rows}}}
'''


def _text(value: object) -> str:
    return repr(value).replace("'", '"')


def test_the_table_is_what_the_api_server_publishes(apiserver):
    text = page(apiserver)
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        TABLE.write_text(text)
    assert TABLE.read_text() == text, "run `make list-keys`"


def test_what_is_merged_by_these_keys_is_taken_by_the_api_server(apiserver, namespace):
    """Two protocols of one port number, and a topology spread that the spec has in both of its places."""
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "maxSkew": 2,
        "labelSelector": {"matchLabels": {"a": "b"}},
    }
    ports = [
        {"containerPort": 9000, "name": "a", "protocol": "TCP"},
        {"containerPort": 9000, "name": "b", "protocol": "UDP"},
    ]
    piece = {"containers": [{"name": "server", "ports": ports}], "topologySpreadConstraints": [spread]}
    spec = {
        "model": {"id": "m", "source": {"pvc": {"claimName": "models"}}},
        "scheduling": {"topologySpread": "Node"},
        "podTemplate": {"spec": piece},
    }
    service = LLMService.model_validate(
        {"metadata": {"name": "qwen", "namespace": namespace, "uid": "u"}, "spec": spec}
    )
    shape = PodShape("windlass/server:1", ("run",), "1", "4Gi", "1Gi", command=("windlass",))
    manifest = json.dumps(deployment(service, shape, "Surge", {}, 1))
    arguments = ("apply", "--server-side", "--dry-run=server", "-f", "-", "-o", "json")
    taken = json.loads(apiserver.kubectl(*arguments, stdin=manifest).stdout)["spec"]["template"]["spec"]
    assert [row for row in taken["containers"][0]["ports"] if row["containerPort"] == 9000] == ports
    (row,) = taken["topologySpreadConstraints"]
    assert row["maxSkew"] == 2
