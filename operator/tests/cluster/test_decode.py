"""Objects that are too large or too deep become stubs; everything beside them is read as ever."""

from __future__ import annotations

import json

import msgspec
import pytest
from windlass_operator.cluster import decode
from windlass_operator.cluster.decode import DEPTH_MAX, RAW_BYTES_MAX, UNREAD
from windlass_operator.cluster.store import NAMESPACE_BYTES_MAX, SERVICE_BYTES_MAX, Shares, Shelf, row_of

META = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2}


def nested(levels, inner="1"):
    return '{"a":' * levels + inner + "}" * levels


def service(spec: str, status: str = '{"conditions": []}', meta=None) -> bytes:
    text = json.dumps({**META, **(meta or {})})
    return f'{{"kind":"LLMService","metadata":{text},"spec":{spec},"status":{status}}}'.encode()


@pytest.mark.parametrize("levels", [DEPTH_MAX, 900, 985, 5000, 80_000])
def test_a_deep_object_is_a_stub(levels):
    """Also one that a recursive parser would just take."""
    found = decode.manifest(service(nested(levels)))
    assert found["metadata"] == META
    assert "levels deep" in found[UNREAD]
    assert ("spec" in found, found["status"]) == (False, {"conditions": []})


def test_a_deep_fields_list_is_a_stub_too():
    """What the API server writes of a deep object's fields is as deep."""
    found = decode.manifest(service("{}", meta={"managedFields": [json.loads(nested(200))]}))
    assert UNREAD in found


@pytest.mark.parametrize("levels", [1, 10, DEPTH_MAX - 1])
def test_an_ordinary_object_is_itself(levels):
    """Brackets inside of texts are no levels."""
    raw = service(nested(levels, json.dumps('[{"\\\\"' * 100)))
    assert decode.manifest(raw) == json.loads(raw)


def test_a_large_object_is_a_stub():
    """Its content is never made into objects of Python."""
    found = decode.manifest(service(json.dumps("x" * RAW_BYTES_MAX)))
    assert (found["metadata"], "KiB" in found[UNREAD], found["status"]) == (META, True, {"conditions": []})
    deep = decode.manifest(service(nested(RAW_BYTES_MAX // 4)))
    assert (deep["metadata"], "KiB" in deep[UNREAD]) == (META, True)


def test_a_stub_leaves_out_a_large_status():
    """It is nothing of ours."""
    found = decode.manifest(service(nested(999), json.dumps("x" * decode.STATUS_BYTES_MAX)))
    assert "status" not in found


def test_a_deep_object_leaves_its_page_whole():
    """Its neighbours come as they are."""
    rows = [json.dumps({"metadata": {"name": f"b{number}"}}).encode() for number in range(3)]
    rows[1] = service(nested(985))
    raw = b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join(rows) + b"]}"
    page = decode.page(raw)
    items = [decode.manifest(bytes(one)) for one in page.items]
    assert page.metadata == {"resourceVersion": "9"}
    assert [UNREAD in one for one in items] == [False, True, False]
    assert [one["metadata"]["name"] for one in items] == ["b0", "a", "b2"]


def test_a_deep_object_leaves_its_line_whole():
    """The event of a watch."""
    event = decode.event(b'{"type":"ADDED","object":' + service(nested(985)) + b"}")
    assert (event.type, UNREAD in decode.manifest(bytes(event.object))) == ("ADDED", True)


def test_broken_json_is_an_error_of_the_parser():
    """Never a loop or an overflow."""
    for raw in (b'{"a":' * 5000, b'{"a": "\\', b"]]]]", b'{"a":{"b":"}}}}'):
        with pytest.raises(msgspec.MsgspecError):
            decode.manifest(raw)


def test_the_store_keeps_a_stub_of_a_large_service():
    """Its managedFields do not count."""
    row = row_of(json.loads(service(json.dumps("x" * SERVICE_BYTES_MAX))))
    assert UNREAD in row.read()
    assert len(row.body) < 1000
    fields = {"managedFields": ["x" * SERVICE_BYTES_MAX]}
    assert UNREAD not in row_of(json.loads(service("{}", meta=fields))).read()


def test_a_namespace_takes_its_share_and_no_more():
    """A neighbour's large object is read still, and what goes makes room."""
    shelf = Shelf(shares=Shares(most=300 * 1024))

    def put(namespace, name, version=1):
        meta = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
        item = json.loads(service(json.dumps("x" * 120 * 1024), meta=meta))
        assert shelf.put(item)
        return UNREAD in shelf.get((namespace, name))

    assert [put("bad", str(number)) for number in range(4)] == [False, False, True, True]
    assert put("good", "a") is False
    assert put("bad", "0", 2) is False
    shelf.drop({"metadata": {"name": "1", "namespace": "bad", "resourceVersion": "5"}})
    assert put("bad", "2", 6) is False
    assert NAMESPACE_BYTES_MAX > SERVICE_BYTES_MAX


def test_an_empty_list_of_metadata_is_null():
    """As the API server writes PartialObjectMetadataList."""
    assert decode.page(b'{"metadata":{"resourceVersion":"9"},"items":null}').items == []
