"""What a transcript cannot show: metrics, limits, time, restarts, many requests at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
import yaml
from windlass_license.license_file import codec
from windlass_license.license_file.keys import by_id


def test_a_server_without_a_key_refuses_with_one_sentence(a_server: Callable[..., Any], signing_key: Any) -> None:
    """It is ready, greets, and names the next command to whoever uploads, looks or leases."""
    bed = a_server(public_keys={})
    assert (bed.client.get("/readyz").status_code, bed.client.get("/").text) == (200, "windlass license server\n")
    for blob in (b"", b"picture", bytes(500)):
        refused = bed.client.post("/ls", files={"file": blob})
        assert refused.status_code == 400
        assert refused.text.startswith("license file refused, nothing changed: this license server trusts no issuer's")
        assert "`kubectl windlass license init`" in refused.text
    for path in ("/ls/view", "/ls/file"):
        told = bed.client.get(path)
        assert (told.status_code, "`kubectl windlass license init`" in told.text) == (404, True)
    asked = bed.ask("GPU-0")
    assert (asked["reason"], "`kubectl windlass license init`" in str(asked["message"])) == ("NoLicense", True)


def test_the_file_in_force_comes_back_as_it_was_uploaded(
    a_server: Callable[..., Any], a_license: Callable[..., Any], signing_key: Any
) -> None:
    """To the admin only, and byte for byte: the next license is issued from it."""
    bed = a_server(admin_token="s3cret")
    admin = {"Authorization": "Bearer s3cret"}
    assert bed.client.get("/ls/file", headers=admin).status_code == 404
    blob = codec.sign(a_license(2, limit=1), signing_key)
    assert bed.client.post("/ls", files={"file": blob}, headers=admin).status_code == 200
    assert bed.client.get("/ls/file").status_code == 401
    assert bed.client.get("/ls/file", headers=admin).content == blob


def test_the_admin_token_may_come_in_a_header_that_proxies_leave(
    a_server: Callable[..., Any], a_license: Callable[..., Any], signing_key: Any
) -> None:
    """The API server's proxy takes Authorization for itself; where both come, that one counts."""
    bed = a_server(admin_token="s3cret")
    file = {"file": codec.sign(a_license(2), signing_key)}
    proxied = {"X-Windlass-Admin-Token": "s3cret"}
    assert bed.client.post("/ls", files=file, headers={"X-Windlass-Admin-Token": "wrong"}).status_code == 401
    assert bed.client.post("/ls", files=file, headers={**proxied, "Authorization": "Bearer wrong"}).status_code == 401
    assert bed.client.post("/ls", files=file, headers=proxied).status_code == 200
    assert bed.client.get("/ls/view", headers={"X-Windlass-Admin-Token": "wrong"}).status_code == 401
    assert "uuid" in bed.client.get("/ls/view", headers=proxied).text
    assert "uuid" not in bed.client.get("/ls/view").text


def test_two_seats_and_twenty_requests(server: Any, a_license: Callable[..., Any]) -> None:
    """Limit 2 and 20 simultaneous pods: exactly two are granted."""
    server.upload(a_license(20, limit=2))
    start = threading.Barrier(20)

    def ask(n: int) -> object:
        start.wait()
        return server.ask(f"GPU-{n}", uid=f"uid-{n}")["state"]

    with ThreadPoolExecutor(20) as pool:
        states = list(pool.map(ask, range(20)))
    assert sorted(states) == ["granted"] * 2 + ["refused"] * 18


def test_restart_keeps_license_and_leases(
    server: Any, a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """A restart, however long, neither frees a seat that is in use nor forgets the license."""
    server.upload(a_license(3, limit=1))
    first = server.ask("GPU-0", uid="a")
    clocks.advance(3600)
    restarted = a_server(clocks)
    assert restarted.ask("GPU-1", uid="b")["reason"] == "LimitReached"
    again = restarted.ask("GPU-0", uid="a")
    assert (again["state"], again["lease"]) == ("renewed", first["lease"])


def test_restart_does_not_revive_a_dead_pod(
    server: Any, a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """After a restart a pod that does not renew loses its seat within one TTL."""
    server.upload(a_license(3, limit=1))
    server.ask("GPU-0", uid="a")
    clocks.advance(3600)
    restarted = a_server(clocks)
    clocks.advance(61)
    assert restarted.ask("GPU-1", uid="b")["state"] == "granted"


def test_a_lapsed_lease_frees_its_seat(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """A pod that dies without a word is gone after the TTL, and the audit log says so."""
    server.upload(a_license(2, limit=1))
    server.ask("GPU-0", uid="a")
    clocks.advance(59)
    assert server.ask("GPU-1", uid="b")["state"] == "refused"
    clocks.advance(2)
    assert server.ask("GPU-1", uid="b")["state"] == "granted"
    assert server.audit_events() == ["uploaded", "granted", "refused", "lapsed", "granted"]


def test_clock_set_back_revives_nothing(
    server: Any, a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """After the license expired, setting the date back does not help, not even with a restart."""
    server.upload(a_license(2, days=1))
    clocks.advance(2 * 86400)
    assert server.ask("GPU-0")["reason"] == "Expired"
    clocks.step(-2 * 86400)
    assert server.ask("GPU-0")["reason"] == "Expired"
    restarted = a_server(clocks)
    assert restarted.ask("GPU-0")["reason"] == "Expired"
    assert "windlass_license_clock_behind_seconds 172800.0" in restarted.client.get("/metrics").text
    trusting = a_server(clocks, trust_clock=True)
    assert trusting.ask("GPU-0")["state"] == "granted"


def test_clock_set_back_freezes_nothing(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """Leases lapse by time that passes, whatever the date says."""
    server.upload(a_license(2, limit=1))
    server.ask("GPU-0", uid="a")
    clocks.step(-3600)
    clocks.advance(61)
    assert server.ask("GPU-1", uid="b")["state"] == "granted"


def test_clock_jump_forwards_steals_no_seat(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """A suspended node or a corrected date does not hand a serving pod's seat to another."""
    server.upload(a_license(2, limit=1))
    server.ask("GPU-0", uid="a")
    clocks.step(3600)
    assert server.ask("GPU-1", uid="b")["reason"] == "LimitReached"
    assert server.ask("GPU-0", uid="a")["state"] == "renewed"
    clocks.advance(61)
    assert server.ask("GPU-1", uid="b")["state"] == "granted"


def test_renewal_after_expiry_is_granted_and_marked(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """Expiry stops new pods, not the ones that serve."""
    server.upload(a_license(2, days=30 / 86400))
    server.ask("GPU-0", uid="a")
    clocks.advance(40)
    renewal = server.ask("GPU-0", uid="a")
    assert (renewal["state"], renewal["expired"]) == ("renewed", True)
    assert server.ask("GPU-1", uid="b")["reason"] == "Expired"


def test_a_new_license_heals_a_refusal(server: Any, a_license: Callable[..., Any]) -> None:
    """Upload replaces all; the next try of the waiting pod passes."""
    server.upload(a_license(1))
    assert server.ask("GPU-1")["reason"] == "Unlicensed"
    server.upload(a_license(2))
    assert server.ask("GPU-1")["state"] == "granted"


def test_a_withdrawn_key_takes_its_license_along(
    server: Any, a_server: Callable[..., Any], a_license: Callable[..., Any], foreign_key: Any, clocks: Any
) -> None:
    """A stored license is verified again at every start."""
    server.upload(a_license())
    restarted = a_server(clocks, public_keys=by_id([foreign_key.public_key()]))
    assert restarted.ask("GPU-0")["reason"] == "NoLicense"
    assert restarted.client.get("/ls/view").status_code == 404


def test_metrics(server: Any, a_license: Callable[..., Any]) -> None:
    """The figures follow the license and the leases."""
    server.upload(a_license(3, limit=2))
    server.ask("GPU-0", "GPU-1")
    server.ask("GPU-2", uid="b")
    text = server.client.get("/metrics").text
    for line in (
        "windlass_license_gpus_licensed 3.0",
        "windlass_license_gpus_limit 2.0",
        "windlass_license_gpus_live 2.0",
        "windlass_license_leases_live 1.0",
        'windlass_license_lease_requests_total{reason="",state="granted"} 1.0',
        'windlass_license_lease_requests_total{reason="LimitReached",state="refused"} 1.0',
        'windlass_license_uploads_total{outcome="accepted"} 1.0',
        "windlass_license_lease_seconds_count 2.0",
    ):
        assert line in text
    expiry = next(line for line in text.splitlines() if line.startswith("windlass_license_expiry"))
    assert float(expiry.split()[1]) == a_license().expires_last.timestamp()


BAD_BODIES = {
    "no json": ("nonsense", 422, "the request is not understood"),
    "no gpus": ('{"holder": {"uid": "u"}}', 422, "gpus: Field required"),
    "no GPU named": ('{"gpus": [], "holder": {"uid": "u"}}', 422, "gpus: List should have at least 1 item"),
    "no uid": ('{"gpus": ["GPU-0"], "holder": {}}', 422, "holder.uid: Field required"),
    "control characters": ('{"gpus": ["GPU-\\n0"], "holder": {"uid": "u"}}', 422, "gpus.0: String should match"),
    "half a surrogate": ('{"gpus": ["GPU-0"], "holder": {"uid": "\\ud800"}}', 422, "the request is not understood"),
    "too large": ('{"gpus": ["' + "x" * 300_000 + '"]}', 413, "larger than 16 KiB"),
}


@pytest.mark.parametrize(("body", "status", "message"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_bad_lease_request(body: str, status: int, message: str, server: Any) -> None:
    """A request that makes no sense is explained and leaves no trace."""
    reply = server.client.post("/v1/leases", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, message in reply.text) == (status, True), reply.text
    assert server.audit_events() == []


@pytest.mark.parametrize("path", ["/v1/leases", "/ls"])
async def test_a_client_that_leaves_amid_its_body_raises_nothing(path: str, server: Any) -> None:
    """Else anybody could fill the log with tracebacks."""
    received = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return next(received)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    form = (b"content-type", b"multipart/form-data; boundary=x")
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [form]}
    await server.client.app(scope, receive, send)
    assert sent[0]["status"] in (400, 422)


def test_view_of_ten_thousand_gpus(server: Any, a_license: Callable[..., Any], now: datetime) -> None:
    """A large license is uploaded and viewed whole."""
    license_ = a_license(10_000, limit=10)
    server.upload(license_)
    text = server.client.get("/ls/view").text
    head, *rows = text.split("- uuid: ")
    assert {gpu.uuid for gpu in license_.gpus} == {row.partition("\n")[0] for row in rows}
    facts = yaml.safe_load(f"{head}- uuid: {rows[-1]}")  # all of it takes a YAML reader in Python seconds
    assert (facts["accesslimit"], len(rows)) == (10, 10_000)
    assert facts["gpuinfos"][0]["expiredtime"] == license_.expires_last
