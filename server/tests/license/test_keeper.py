"""The life of a lease: waited for, kept, lost, given back."""

import asyncio
import json
import time

import pytest
from windlass.errors import LicenseError
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper, retry_delay_s
from windlass.license.model import Holder

POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
REFUSAL = {"state": "refused", "reason": "NoLicense", "message": "no license is in force", "gpus": ["GPU-a"]}


def grant(**terms: object) -> tuple[int, str]:
    body = {"state": "granted", "lease": "L1", "ttlSeconds": 0.2, "graceSeconds": 0, "expires": "2030-01-01T00:00:00Z"}
    return 200, json.dumps(body | {"message": "granted"} | terms)


def refusal(**terms: object) -> tuple[int, str]:
    return 403, json.dumps(REFUSAL | terms)


async def test_waits_until_a_license_is_uploaded(serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is shown and waited out."""
    monkeypatch.setattr("windlass.license.keeper.FAST_RETRY_MAX_S", 0.01)
    facts: list[LicenseFacts] = []
    server = serve(lambda seen: refusal() if len(server.seen) < 3 else grant())
    async with LeaseClient([server.url]) as client:
        await LicenseKeeper(client, ("GPU-a",), POD, facts.append).obtain()
    assert [fact.state for fact in facts] == ["waiting", "refused", "refused", "granted"]
    assert facts[1].message == "no license is in force"
    assert (facts[-1].expires, facts[-1].gpus) == ("2030-01-01T00:00:00Z", ("GPU-a",))


@pytest.mark.parametrize("wait_s", [0, 0.3])
async def test_gives_up_when_told_to(serve, wait_s: float) -> None:
    """WINDLASS_LICENSE_WAIT bounds the wait; 0 asks once."""
    server = serve(lambda seen: refusal())
    began = time.monotonic()
    async with LeaseClient([server.url]) as client:
        with pytest.raises(LicenseError, match="no license is in force; gave up after 0 s"):
            await LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None, wait_s=wait_s).obtain()
    assert wait_s <= time.monotonic() - began < wait_s + 1
    assert (1 if wait_s == 0 else 2) == len(server.seen)


async def test_serving_survives_a_lost_server_within_the_grace(serve) -> None:
    """Renewals that fail are shown; the pod serves on, and the lease is given back at the end."""
    states: list[str] = []
    server = serve(lambda seen: grant(graceSeconds=60) if len(server.seen) != 2 else (500, "down"))
    async with LeaseClient([server.url]) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: states.append(facts.state))
        await keeper.obtain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(keeper.keep(), 0.5)
        await keeper.release()
    assert states[:4] == ["waiting", "granted", "unreachable", "granted"]
    assert server.seen[-1].method == "DELETE"


async def test_license_is_lost_after_the_grace(serve) -> None:
    """Nothing renewed for TTL and grace ends the pod with the server's words."""
    server = serve(lambda seen: grant() if len(server.seen) == 1 else refusal())
    async with LeaseClient([server.url]) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match="no license is in force; the license was not renewed for"):
            await asyncio.wait_for(keeper.keep(), 5)


@pytest.mark.parametrize(
    ("answer", "state"), [(grant(expired=True), "expired"), (refusal(reason="Expired"), "expired")]
)
async def test_expiry_is_shown(serve, answer: tuple[int, str], state: str) -> None:
    """A renewal after expiry and a refusal for it both read `expired`."""
    states: list[str] = []
    server = serve(lambda seen: answer)
    async with LeaseClient([server.url]) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: states.append(facts.state), wait_s=0)
        try:
            await keeper.obtain()
        except LicenseError:
            assert answer[0] == 403
    assert state == states[-1]


def test_back_off() -> None:
    """Quick for ten minutes, so that an upload is seen within ten seconds even with jitter; then calmer."""
    assert [retry_delay_s(attempt, 0) for attempt in range(6)] == [1.0, 1.5, 2.25, 3.375, 5.0, 5.0]
    assert retry_delay_s(500, 601) == 30
