"""The audit log: what is in it, what is counted instead, and how it is asked for."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from windlass_license.storage.store import AuditBounds


@pytest.fixture
def told(server: Any, a_license: Callable[..., Any], clocks: Any) -> Any:
    """A server with some history: an upload, grants of two pods, refusals, a release, one second each."""
    server.upload(a_license(3, limit=2))
    for gpus, uid in ((("GPU-0",), "a"), (("GPU-1",), "b"), (("GPU-2",), "c"), (("GPU-9",), "d")):
        clocks.advance(1)
        server.ask(*gpus, uid=uid)
    clocks.advance(1)
    server.client.delete(f"/v1/leases/{server.ask('GPU-0', uid='a')['lease']}")
    return server


FILTERS = {
    "none": ("", ["uploaded", "granted", "granted", "refused", "refused", "released"]),
    "limit": ("limit=2", ["refused", "released"]),
    "event": ("event=granted", ["granted", "granted"]),
    "pod": ("pod=pod-a", ["granted", "released"]),
    "uid": ("uid=b", ["granted"]),
    "namespace": ("namespace=other", []),
    "gpu": ("gpu=GPU-0", ["granted", "released"]),
    "since": ("since=2026-09-06T10:00:04Z", ["refused", "released"]),
    "since in another zone": ("since=2026-09-06T18:00:04%2B08:00", ["refused", "released"]),
    "until": ("until=2026-09-06T10:00:01Z", ["uploaded"]),
    "two at once": ("pod=pod-a&event=released", ["released"]),
}


@pytest.mark.parametrize(("query", "expected"), FILTERS.values(), ids=FILTERS)
def test_filters(query: str, expected: list[str], told: Any) -> None:
    """Conditions hold together; the newest records, oldest first."""
    reply = told.client.get(f"/ls/audit?{query}")
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["event"] for line in reply.text.splitlines()] == expected


def test_lease_filter(told: Any) -> None:
    """The life of one lease."""
    granted = json.loads(told.client.get("/ls/audit?uid=a&limit=10").text.splitlines()[0])
    lines = told.client.get(f"/ls/audit?lease={granted['lease']}").text.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["granted", "released"]


def test_yaml(told: Any) -> None:
    """The same records for people."""
    reply = told.client.get("/ls/audit?format=yaml&event=refused")
    assert reply.headers["content-type"] == "application/yaml"
    records = yaml.safe_load(reply.text)
    assert [record["reason"] for record in records] == ["LimitReached", "Unlicensed"]
    assert records == [json.loads(line) for line in told.client.get("/ls/audit?event=refused").text.splitlines()]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "event=nonsense", "since=yesterday", "since=2026-09-06T10:00"])
def test_bad_question(query: str, server: Any) -> None:
    """A filter that makes no sense is named."""
    reply = server.client.get(f"/ls/audit?{query}")
    assert (reply.status_code, reply.json()["reason"]) == (422, "BadRequest")
    assert query.partition("=")[0] in reply.json()["message"]


def test_the_first_and_last_hours_of_time(server: Any) -> None:
    """A time that no other zone can express is no fault of the server."""
    for moment in ("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"):
        assert server.client.get(f"/ls/audit?since={moment}").status_code == 200


def test_a_waiting_pod_does_not_flood_the_log(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """Its refusal is recorded once, again with another reason, and every ten minutes with the number between."""
    server.upload(a_license(2, limit=1))
    server.ask("GPU-9", uid="waits")
    for _ in range(200):
        clocks.advance(4)
        server.ask("GPU-9", uid="waits")
    records = [json.loads(line) for line in server.client.get("/ls/audit?uid=waits").text.splitlines()]
    assert [(record["reason"], record.get("repeats")) for record in records] == [
        ("Unlicensed", None),
        ("Unlicensed", 149),
    ]
    server.upload(a_license(10, limit=1))
    server.ask("GPU-0", uid="holder")
    server.ask("GPU-9", uid="waits")
    newest = json.loads(server.client.get("/ls/audit?uid=waits&limit=1").text)
    assert (newest["reason"], newest["repeats"]) == ("LimitReached", 50)


def test_renewals_are_a_number(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """A pod that renews for days leaves two records."""
    server.upload(a_license())
    for _ in range(50):
        server.ask("GPU-0")
        clocks.advance(20)
    clocks.advance(60)
    server.ask("GPU-1", uid="other")
    lapsed = json.loads(server.client.get("/ls/audit?event=lapsed").text)
    assert lapsed["renewals"] == 49
    assert server.audit_events() == ["uploaded", "granted", "lapsed", "granted"]


def test_rotation_over_a_restart(a_server: Callable[..., Any], a_license: Callable[..., Any]) -> None:
    """The bound holds whoever wrote the records."""
    for _ in range(3):
        server = a_server(audit=AuditBounds(rows=20))
        server.upload(a_license())
        for n in range(30):
            server.ask("GPU-9", uid=f"uid-{n}")
    assert 1 <= len(server.audit_events()) <= 20
