"""The life of a lease: waited for, kept, lost, given back."""

import asyncio
import itertools
import json
import re
from dataclasses import replace

import pytest
from windlass.errors import LicenseError
from windlass.license.client import LeaseClient
from windlass.license.keeper import RENEW_MIN_S, LicenseFacts, LicenseKeeper, retry_delay_s, spoken
from windlass.license.keeper import keeper as keeper_of
from windlass.license.model import Holder
from windlass.license.settings import LicenseSettings
from windlass_testbed.simulated_time import START_S, elapse, passed_s

from .conftest import URL

pytestmark = pytest.mark.simulated_time
POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
REFUSAL = {"state": "refused", "reason": "NoLicense", "message": "no license is in force", "gpus": ["GPU-a"]}
AT_THE_END = pytest.approx(900 + RENEW_MIN_S / 2, abs=RENEW_MIN_S / 2 + 1e-3)
"""When a grace of 900 s is over: a try that falls just before its end is followed by the shortest pause."""


def grant(**terms: object) -> tuple[int, str]:
    body = {"state": "granted", "lease": "L1", "ttlSeconds": 60, "graceSeconds": 0, "expires": "2030-01-01T00:00:00Z"}
    return 200, json.dumps(body | {"message": "granted"} | terms)


def refusal(**terms: object) -> tuple[int, str]:
    return 403, json.dumps(REFUSAL | terms)


async def test_waits_until_a_license_is_uploaded(answering) -> None:
    """A refusal is shown and waited out."""
    facts: list[LicenseFacts] = []
    server = answering(lambda seen: refusal() if len(server.seen) < 3 else grant())
    async with LeaseClient([URL], transport=server.transport) as client:
        await LicenseKeeper(client, ("GPU-a",), POD, facts.append).obtain()
    assert [fact.state for fact in facts] == ["waiting", "refused", "refused", "granted"]
    assert (facts[1].message, facts[1].reason) == ("GPU GPU-a: no license is in force", "NoLicense")
    assert (facts[-1].expires, facts[-1].gpus) == ("2030-01-01T00:00:00Z", ("GPU-a",))


@pytest.mark.parametrize("wait_s", [0, 30])
async def test_gives_up_on_request(answering, wait_s: float) -> None:
    """WINDLASS_LICENSE_WAIT bounds the wait; 0 asks once."""
    server = answering(lambda seen: refusal())
    async with LeaseClient([URL], transport=server.transport) as client:
        with pytest.raises(LicenseError, match=r"GPU GPU-a: no license is in force; gave up after \d+ s"):
            await LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None, wait_s=wait_s).obtain()
    assert passed_s() == pytest.approx(wait_s)
    assert (len(server.seen) == 1) == (wait_s == 0)


async def test_serving_survives_a_lost_server_within_the_grace(answering) -> None:
    """Renewals that fail are shown; the pod serves on, and the lease is given back at the end."""
    told: list[LicenseFacts] = []
    server = answering(lambda seen: grant(graceSeconds=60) if len(server.seen) != 2 else (500, "down"))
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, told.append)
        await keeper.obtain()
        keeping = asyncio.create_task(keeper.keep())
        await elapse(3600)
        assert not keeping.done()
        keeping.cancel()
        await keeper.release()
    assert [facts.state for facts in told[:4]] == ["waiting", "granted", "unreachable", "granted"]
    assert re.search(r"GPU GPU-a: no license server answers .*; this pod serves on until \d{4}-", told[2].message)
    assert server.seen[-1].method == "DELETE"


async def test_license_is_lost_after_the_grace(answering) -> None:
    """Nothing renewed for TTL and grace ends the pod with the server's words."""
    server = answering(lambda seen: grant() if len(server.seen) == 1 else refusal())
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match="GPU GPU-a: no license is in force; the license was not renewed for"):
            await keeper.keep()


async def test_the_grace_ends_when_it_is_over(answering) -> None:
    """Not at some later try: TTL and grace after the last renewal, though the lease is long."""
    server = answering(lambda seen: grant(ttlSeconds=600, graceSeconds=300) if len(server.seen) == 1 else (500, "down"))
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match="answered 500: down"):
            await keeper.keep()
    assert passed_s() == AT_THE_END


async def test_a_license_that_forbids_serving_after_its_end_is_obeyed_at_once(answering) -> None:
    """Grace is for a lost server, not for a clear word."""
    server = answering(lambda seen: grant(graceSeconds=60) if len(server.seen) == 1 else refusal(reason="Expired"))
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match=r"no license is in force$"):
            await keeper.keep()


async def test_a_license_that_lets_serving_pods_go_on_is_used_up_to_its_grace(answering) -> None:
    """A pod that was renewed after the end knows that it may, so a lost lease leaves it its grace."""
    told: list[LicenseFacts] = []
    ended = {"reason": "Expired", "message": "the license expired"}
    server = answering(
        lambda seen: grant(expired=True, ttlSeconds=300, graceSeconds=600) if len(server.seen) < 3 else refusal(**ended)
    )
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, told.append)
        await keeper.obtain()
        with pytest.raises(LicenseError, match="GPU GPU-a: the license expired; the license was not renewed for"):
            await keeper.keep()
        assert passed_s() - (keeper._renewed_at - START_S) == AT_THE_END
    refused = [facts for facts in told if facts.reason]
    assert len(refused) > 1
    assert {(facts.state, facts.reason) for facts in refused} == {("expired", "Expired")}
    assert re.search(r"the license expired; this pod serves on until \d{4}-", refused[0].message)


async def test_a_new_license_may_forbid_it_again(answering) -> None:
    """What the last grant showed counts, not an earlier one."""
    answers = [grant(expired=True, graceSeconds=60), grant(graceSeconds=60), refusal(reason="Expired")]
    server = answering(lambda seen: answers[min(len(server.seen), 3) - 1])
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match=r"no license is in force$"):
            await keeper.keep()


async def test_a_license_that_stops_serving_ends_pods_that_went_on(answering) -> None:
    """Its refusal says so, whatever an earlier license let pass."""
    answers = [grant(expired=True, graceSeconds=60), refusal(reason="Expired", stopsServing=True)]
    server = answering(lambda seen: answers[min(len(server.seen), 2) - 1])
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        with pytest.raises(LicenseError, match=r"no license is in force$"):
            await keeper.keep()


async def test_renewals_are_spread(answering) -> None:
    """Each comes after a third of the lease, a fifth more or less, so that pods started together drift apart."""
    times: list[float] = []
    clock = asyncio.get_running_loop().time
    server = answering(lambda seen: times.append(clock()) or grant(ttlSeconds=60))
    async with LeaseClient([URL], transport=server.transport) as client:
        keeper = LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None)
        await keeper.obtain()
        work = asyncio.create_task(keeper.keep())
        await elapse(20 * 60)
        work.cancel()
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert len(pauses) >= 50
    assert min(pauses) > 15.9
    assert max(pauses) < 24.1
    assert max(pauses) - min(pauses) > 1


@pytest.mark.parametrize(
    ("required", "gpus", "said"),
    [(True, (), "has no GPU, so it needs no license"), (False, ("GPU-a",), "no license is asked for")],
)
async def test_no_license_is_asked_for(required: bool, gpus: tuple[str, ...], said: str) -> None:
    """Without GPUs, or when told so; the facts say which."""
    told: list[LicenseFacts] = []
    async with LeaseClient(["http://127.0.0.1:9"]) as client:
        assert keeper_of(LicenseSettings(required=required), client, gpus, POD, told.append) is None
    assert (told[0].state, said in told[0].message) == ("notRequired", True)


def test_each_state_is_reported_once() -> None:
    """The log gets a line for a new state, none for the hundredth renewal; the report gets everything."""
    said: list[str] = []
    told: list[LicenseFacts] = []
    report = spoken(told.append, said.append)
    refused = LicenseFacts(True, "refused", "GPU-a is not in it", ("GPU-a",))
    granted = LicenseFacts(True, "granted", "granted for n/p", ("GPU-a",), "2030-01-01T00:00:00+00:00")
    for facts in (refused, refused, granted, replace(granted, message="renewed for n/p"), granted):
        report(facts)
    assert said == ["GPU-a is not in it", "license granted until 2030-01-01T00:00:00+00:00: GPU-a"]
    assert len(told) == 5


@pytest.mark.parametrize(
    ("answer", "state"), [(grant(expired=True), "expired"), (refusal(reason="Expired"), "expired")]
)
async def test_expiry_is_shown(answering, answer: tuple[int, str], state: str) -> None:
    """A renewal after expiry and a refusal for it both read `expired`."""
    states: list[str] = []
    server = answering(lambda seen: answer)
    async with LeaseClient([URL], transport=server.transport) as client:
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
