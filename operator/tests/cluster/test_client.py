"""What a refusal of the API server means: the user's to mend, ours to try again, or a bug."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from windlass_operator.cluster.client import AT_ONCE, ApiServer
from windlass_operator.cluster.kinds import Pods
from windlass_operator.cluster.rest import StatusError
from windlass_operator.errors import InvalidError, Retry, Unavailable, UserError

MANIFEST = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "qwen", "namespace": "team-a"}}
REFUSALS = {
    "invalid": (422, "spec.replicas: Invalid value", InvalidError),
    "forbidden": (403, "no rights", UserError),
    "too large to send": (413, "limit is 3145728", UserError),
    "too large to store": (500, "etcdserver: request is too large", UserError),
    "too large to send to etcd": (500, "trying to send message larger than max", UserError),
    "a value of the wrong kind": (500, "failed to create typed patch object (a/b): .spec.x: expected list", UserError),
    "changed by another": (409, "conflict", Retry),
    "an error of its own": (500, "etcdserver: leader changed", StatusError),
}


@pytest.mark.parametrize("verb", ["get", "find", "apply"])
async def test_silence_is_not_an_error_of_ours(verb):
    """Reads and writes alike are tried again, later each time, without a traceback."""

    async def call(*_: object) -> bytes:
        raise TimeoutError

    api = ApiServer(SimpleNamespace(call=call, read=call), lambda *_: None)
    asked = {"get": (Pods, "a", "b"), "find": (Pods, "a"), "apply": (MANIFEST,)}[verb]
    with pytest.raises(Unavailable, match="the API server does not answer: TimeoutError"):
        await getattr(api, verb)(*asked)


@pytest.mark.parametrize(("code", "words", "error"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_becomes_the_error_for_what_to_do(code, words, error):
    """What will be refused again is a condition, not a retry."""

    async def call(*_: object) -> bytes:
        raise StatusError(code, json.dumps({"message": words}).encode())

    with pytest.raises(error, match=words.split("(")[0]) as caught:
        await ApiServer(SimpleNamespace(call=call), lambda *_: None).apply(MANIFEST)
    assert type(caught.value) is error


@pytest.mark.parametrize(("code", "words", "error"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refused_deletion_raises_as_any_other_write(code, words, error):
    async def call(*_: object) -> bytes:
        raise StatusError(code, json.dumps({"message": words}).encode())

    with pytest.raises(error, match=words.split("(")[0]) as caught:
        await ApiServer(SimpleNamespace(call=call), lambda *_: None).delete(Pods, "team-a", "qwen")
    assert type(caught.value) is error


async def test_what_is_gone_already_is_deleted():
    async def call(*_: object) -> bytes:
        raise StatusError(404, b"{}")

    await ApiServer(SimpleNamespace(call=call), lambda *_: None).delete(Pods, "team-a", "qwen")


@pytest.mark.parametrize(
    ("kind", "version", "most"), [("Service", "v1", AT_ONCE["Service"]), ("Deployment", "apps/v1", 20)]
)
async def test_addresses_are_asked_for_a_few_at_once(kind, version, most):
    """The API server finds them one by one; all other creates wait for nobody."""
    under_way, seen = 0, []

    async def call(*_: object) -> bytes:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return b"{}"

    api = ApiServer(SimpleNamespace(call=call, read=call), lambda *_: None)
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "qwen", "namespace": "team-a"}}
    await asyncio.gather(*(api.create(manifest) for _ in range(20)))
    assert max(seen) == most
    assert len(seen) == 20


async def test_each_write_is_counted_by_kind_and_verb_and_a_fenced_one_is_not():
    """The count is what tests of rest go by: it names what went out, and nothing that was held back."""

    async def call(*_: object) -> bytes:
        return b"{}"

    counted: list[tuple[str, str]] = []
    rest, count = SimpleNamespace(call=call), lambda kind, verb: counted.append((kind, verb))
    await ApiServer(rest, count).apply(MANIFEST)
    await ApiServer(rest, count).delete(Pods, "a", "b")
    with pytest.raises(Retry, match="does not hold the lease"):
        await ApiServer(rest, count, lambda: False).apply(MANIFEST)
    assert counted == [(MANIFEST["kind"], "apply"), ("Pod", "delete")]
