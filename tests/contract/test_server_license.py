"""Server ↔ license server: the real client and keeper against the real app, over its real HTTP interface in process."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from windlass.errors import LicenseError
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper
from windlass.license.model import Granted, Holder, Refused, naming
from windlass_license.http.app import create_app
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings
from windlass_testbed.waiting import HANG_S, wait_until_async

ADDRESS = "http://license"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
OTHER = Holder("team-a", "qwen-1", "uid-2", "qwen")


class Clocks:
    """Time in the hands of the test."""

    def __init__(self) -> None:
        self.wall_s = datetime(2026, 9, 6, 10, tzinfo=UTC).timestamp()
        self.monotonic_s = 0.0

    def advance(self, seconds: float) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def app(tmp_path: Path, clocks: Clocks) -> Iterator[FastAPI]:
    settings = Settings(tmp_path, by_id([KEY.public_key()]), ttl=timedelta(seconds=60))
    yield create_app(settings, wall=lambda: clocks.wall_s, monotonic=lambda: clocks.monotonic_s)


def client(app: FastAPI) -> LeaseClient:
    return LeaseClient([ADDRESS], transport=httpx.ASGITransport(app=app))


async def upload(app: FastAPI, clocks: Clocks, *gpus: str, limit: int = 0, days: float = 30) -> None:
    now = datetime.fromtimestamp(clocks.wall_s, UTC)
    rows = tuple(LicensedGpu(gpu, "NVIDIA L20", now - timedelta(days=1), now + timedelta(days=days)) for gpu in gpus)
    blob = sign(License("1234", "leolingli", limit, rows), KEY)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=ADDRESS) as http:
        answer = await http.post("/ls", files={"file": ("license.dat", blob)})
    assert answer.status_code == 200, answer.text


async def test_grant_renewal_and_release(app: FastAPI, clocks: Clocks) -> None:
    """A lease has terms that the client understands; asking again renews it, releasing frees the GPU."""
    await upload(app, clocks, "GPU-a", "GPU-b", limit=1)
    async with client(app) as leases:
        first = await leases.lease(["GPU-a"], POD)
        again = await leases.lease(["GPU-a"], POD)
        assert isinstance(first, Granted)
        assert isinstance(again, Granted)
        assert (first.lease, first.ttl_s, first.expired) == (again.lease, 60, False)
        assert first.grace_s > 0
        assert first.expires is not None
        assert datetime.fromisoformat(first.expires) > datetime.fromtimestamp(clocks.wall_s, UTC)
        held_back = await leases.lease(["GPU-b"], OTHER)
        assert isinstance(held_back, Refused)
        assert held_back.reason == "LimitReached"
        await leases.release(first.lease)
        assert isinstance(await leases.lease(["GPU-b"], OTHER), Granted)


async def test_dead_pod_frees_its_gpus(app: FastAPI, clocks: Clocks) -> None:
    """A lease that nobody renews runs out by itself."""
    await upload(app, clocks, "GPU-a", "GPU-b", limit=1)
    async with client(app) as leases:
        assert isinstance(await leases.lease(["GPU-a"], POD), Granted)
        clocks.advance(61)
        assert isinstance(await leases.lease(["GPU-b"], OTHER), Granted)


@pytest.mark.parametrize(
    ("licensed", "days", "reason", "said"),
    [
        ((), 30.0, "NoLicense", "no license is in force"),
        (("GPU-z",), 30.0, "Unlicensed", "GPU-a"),
        (("GPU-a",), 1.0, "Expired", "expired"),
    ],
)
async def test_refusals(
    app: FastAPI, clocks: Clocks, licensed: tuple[str, ...], days: float, reason: str, said: str
) -> None:
    """Each refusal reaches the pod's facts in the server's words; the start gives up when told to."""
    if licensed:
        await upload(app, clocks, *licensed, days=days)
        clocks.advance(2 * 86400)
    facts: list[LicenseFacts] = []
    async with client(app) as leases:
        answer = await leases.lease(["GPU-a"], POD)
        with pytest.raises(LicenseError, match=said):
            await LicenseKeeper(leases, ("GPU-a",), POD, facts.append, wait_s=0).obtain()
    assert isinstance(answer, Refused)
    assert (answer.reason, facts[-1].reason, facts[-1].message) == (reason, reason, naming(answer.message, ["GPU-a"]))
    assert "GPU-a" in facts[-1].message
    assert facts[-1].state == ("expired" if reason == "Expired" else "refused")


async def test_uploaded_license_heals_a_waiting_pod(app: FastAPI, clocks: Clocks) -> None:
    """The pod waits without a license and goes on after the upload."""
    facts: list[LicenseFacts] = []
    async with client(app) as leases:
        waiting = asyncio.create_task(LicenseKeeper(leases, ("GPU-a",), POD, facts.append).obtain())
        await wait_until_async(lambda: "refused" in [fact.state for fact in facts])
        await upload(app, clocks, "GPU-a")
        await asyncio.wait_for(waiting, HANG_S)
    assert facts[-1].state == "granted"
    assert facts[-1].gpus == ("GPU-a",)


async def test_expiry_while_serving(app: FastAPI, clocks: Clocks) -> None:
    """A serving pod's renewal after expiry is granted and marked."""
    await upload(app, clocks, "GPU-a", days=0.0005)  # 43 s
    async with client(app) as leases:
        assert isinstance(await leases.lease(["GPU-a"], POD), Granted)
        clocks.advance(50)
        renewed = await leases.lease(["GPU-a"], POD)
    assert isinstance(renewed, Granted)
    assert renewed.expired
