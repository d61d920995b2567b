"""Watches lose nothing: over cuts, expired versions and lines cut in two, the caller hears of every change once."""

from __future__ import annotations

import tracemalloc

import httpx2
import pytest
from windlass_client import UnreachableError, watching

from .mock_api import Chunks, MockApi, a_list, a_service, rows

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(watching, "PAUSE_FIRST_S", 0.0)


async def told(api: MockApi, count: int) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    async for event in api.client().watch():
        out.append((event.type, event.service.metadata.name))
        if len(out) == count:
            break
    return out


async def test_what_is_there_comes_first_then_changes_from_that_version():
    """A list, then a watch from the list's version on."""
    api = MockApi(a_list(7, a_service("a", 5)), rows(("MODIFIED", a_service("a", 8)), ("ADDED", a_service("b", 9))))
    assert await told(api, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b")]
    assert api.asked[1].url.params["resourceVersion"] == "7"


async def test_after_a_cut_it_goes_on_from_the_last_version():
    """Bookmarks count too; nothing is told twice."""
    bookmark = {"kind": "LLMService", "metadata": {"resourceVersion": "20"}}
    api = MockApi(
        a_list(7, a_service("a", 5)),
        rows(("MODIFIED", a_service("a", 8)), ("BOOKMARK", bookmark)),
        httpx2.ReadError("cut"),
        rows(("MODIFIED", a_service("a", 8)), ("MODIFIED", a_service("a", 21))),
    )
    assert await told(api, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a")]
    assert [one.url.params.get("resourceVersion") for one in api.asked] == [None, "7", "20", "20"]


@pytest.mark.parametrize("how", ["row", "answer"])
async def test_after_an_expired_version_the_difference_is_reported(how):
    """Deleted, changed, new and made again under the same name: each is told once, the unchanged one is not."""
    before = [a_service("changed", 1), a_service("deleted", 2), a_service("same", 3), a_service("again", 4)]
    after = [a_service("changed", 11), a_service("same", 3), a_service("again", 12, uid="v"), a_service("new", 13)]
    expired = rows(("ERROR", GONE)) if how == "row" else httpx2.Response(410, json=GONE)
    api = MockApi(a_list(4, *before), expired, a_list(20, *after))
    assert (await told(api, 8))[4:] == [
        ("MODIFIED", "changed"),
        ("ADDED", "again"),
        ("ADDED", "new"),
        ("DELETED", "deleted"),
    ]


async def test_a_deletion_that_a_fresh_list_shows_has_the_last_known_service():
    """Whole, as it was read: a caller may show what is gone."""
    api = MockApi(a_list(4, a_service("a", 2, replicas=3)), rows(("ERROR", GONE)), a_list(20))
    found = []
    async for event in api.client().watch():
        found.append(event)
        if len(found) == 2:
            break
    assert [one.type for one in found] == ["ADDED", "DELETED"]
    assert found[1].service == found[0].service


async def test_a_watch_reads_its_list_in_pages_and_forgets_nothing():
    """What is gone is known when the last page is there; a version that expires between pages begins in one page."""
    before = [a_service("a", 1), a_service("b", 2), a_service("gone", 3)]
    first = a_list(7, before[0], more="x"), a_list(7, *before[1:])
    again = a_list(20, a_service("a", 11), more="y"), httpx2.Response(410, json=GONE)
    api = MockApi(*first, rows(("ERROR", GONE)), *again, a_list(30, a_service("a", 11), a_service("b", 2)))
    assert await told(api, 5) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "gone"), ("MODIFIED", "a"),
                                  ("DELETED", "gone")]  # fmt: skip
    limits = [one.url.params.get("limit") for one in api.asked]
    assert limits == ["100", "100", None, "100", "100", None]


async def test_a_watch_keeps_little_of_each_service():
    """A console has one for each of its users: 1,000 services are below 5 MiB, of models they would be 35."""
    env = [{"name": f"NAME_{number}", "value": f"value {number}"} for number in range(30)]
    tracemalloc.start()
    try:
        known = watching._Delivered()
        for number in range(1000):
            assert [one.type for one in known.page([a_service(f"s{number}", env=env)])] == ["ADDED"]
        assert len(known.services) == 1000
        assert tracemalloc.get_traced_memory()[0] < 5 << 20
    finally:
        tracemalloc.stop()


async def test_a_line_cut_in_two_is_no_event():
    """Half a line is asked for again; a line in two pieces is one line."""
    whole = rows(("ADDED", a_service("b", 9)))
    text = b"".join([piece async for piece in whole.stream])
    pieces = httpx2.Response(200, content=Chunks([text[:30], text[30:]]))
    api = MockApi(a_list(7), httpx2.Response(200, content=Chunks([text[:40]])), pieces)
    assert await told(api, 1) == [("ADDED", "b")]


async def test_a_deletion_is_reported_once():
    """A service that was never told of is not told as deleted."""
    api = MockApi(
        a_list(7, a_service("a", 5)),
        rows(("DELETED", a_service("stranger", 8)), ("DELETED", a_service("a", 9)), ("DELETED", a_service("a", 9))),
        rows(("ADDED", a_service("a", 10))),
    )
    assert await told(api, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_nobody_there_for_longer_than_the_patience_is_an_error():
    """The caller is told who does not answer."""
    with pytest.raises(UnreachableError, match="no answer from https://api: nobody is there"):
        async for _ in MockApi().client().watch(patience_s=0.0):
            pass


async def test_a_list_that_expires_between_pages_is_read_again_whole():
    """Etcd forgets old versions while a slow reader turns pages."""
    api = MockApi(a_list(7, a_service("a"), more="x"), httpx2.Response(410, json=GONE), a_list(9, a_service("b")))
    assert [one.metadata.name for one in await api.client().list()] == ["b"]
    assert "limit" not in api.asked[2].url.params
