"""The CRD in the cluster against the operator's own models: what differs, what is said, what a status loses."""

from __future__ import annotations

import copy
import json

import pytest
from windlass_operator.cluster.served_schema import ServedSchema, compared, own_schema, pruned, published

GVK = [{"group": "serving.windlass.dev", "version": "v1alpha1", "kind": "LLMService"}]


def without(schema, *path):
    """A copy that lacks the field."""
    found = copy.deepcopy(schema)
    place = found
    for name in path[:-1]:
        place = place["properties"][name]
    del place["properties"][path[-1]]
    return found


class Server:
    """Answers as the API server publishes schemas; `asked` are the paths."""

    def __init__(self, schema) -> None:
        self.schema, self.hash, self.asked = schema, "A", []

    async def call(self, method, path, params=None):
        self.asked.append(path)
        where = f"/openapi/v3/apis/serving.windlass.dev/v1alpha1?hash={self.hash}"
        if path == "/openapi/v3":
            return json.dumps({"paths": {"apis/serving.windlass.dev/v1alpha1": {"serverRelativeURL": where}}}).encode()
        assert params == {"hash": self.hash}
        ours = {**self.schema, "x-kubernetes-group-version-kind": GVK}
        return json.dumps({"components": {"schemas": {"other": {"type": "object"}, "ours": ours}}}).encode()


def test_the_same_schema_says_nothing() -> None:
    found = compared(own_schema(), own_schema())
    assert (found.missing, found.unknown, found.sentence()) == ((), (), "")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (("status", "servedGeneration"), "status.servedGeneration"),
        (("spec", "engine", "speculation"), "spec.engine.speculation"),
    ],
)
def test_what_one_of_both_lacks(path, named) -> None:
    """Of an object the object alone is named."""
    other = without(own_schema(), *path)
    older, newer = compared(own_schema(), other), compared(other, own_schema())
    assert (older.missing, older.unknown) == ((named,), ())
    assert (newer.missing, newer.unknown) == ((), (named,))
    assert f"it lacks {named};" in older.sentence()
    assert newer.sentence() == f"the CRD is newer than this operator: {named} have no effect; upgrade the operator"


async def test_it_is_read_when_its_hash_changes() -> None:
    """A look at the index costs little; the document is a third of a megabyte."""
    server, served = Server(own_schema()), ServedSchema()
    status = {"observedGeneration": 1, "servedGeneration": 1, "plan": {"gpus": 1}}
    assert await served.look(server) is False
    assert await served.look(server) is False
    assert len(server.asked) == 3
    assert served.status(status) == status
    server.schema, server.hash = without(own_schema(), "status", "servedGeneration"), "B"
    assert await served.look(server) is True
    assert served.status(status) == {"observedGeneration": 1, "plan": {"gpus": 1}}
    server.schema, server.hash = own_schema(), "C"
    assert await served.look(server) is True
    assert served.mismatch.sentence() == ""


def test_a_status_is_pruned_inside_lists() -> None:
    schema = {"properties": {"rows": {"items": {"properties": {"a": {}}}}, "free": {}}}
    value = {"rows": [{"a": 1, "b": 2}], "free": {"x": 1}, "gone": 3}
    assert pruned(value, schema) == {"rows": [{"a": 1}], "free": {"x": 1}}


def test_a_document_without_our_kind() -> None:
    assert published({"components": {"schemas": {"other": {"type": "object"}}}}) is None
