"""Builders that the tests share: keys, licenses, clocks that a test sets, a server in this process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi.testclient import TestClient
from windlass_license.http.app import create_app
from windlass_license.license_file import codec
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings

NOW = datetime(2026, 9, 6, 10, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def now() -> datetime:
    """The time at which every test begins."""
    return NOW


@pytest.fixture(scope="session")
def signing_key() -> Ed25519PrivateKey:
    """The key that the test server trusts."""
    return Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="session")
def foreign_key() -> Ed25519PrivateKey:
    """A key that nobody trusts."""
    return Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


MakeLicense = Callable[..., License]


@pytest.fixture(scope="session")
def a_license() -> MakeLicense:
    """`a_license(3, limit=2, days=30)`: GPUs GPU-0, GPU-1, GPU-2."""

    def make(gpus: int = 2, limit: int = 0, days: float = 30, **terms: object) -> License:
        end = NOW + timedelta(days=days)
        rows = tuple(LicensedGpu(f"GPU-{n}", "NVIDIA L20", NOW - timedelta(days=60), end) for n in range(gpus))
        return replace(License("1234", "leolingli", limit, rows), **terms)

    return make


@dataclass
class Clocks:
    """A wall clock and a monotonic clock in the hands of the test."""

    wall_s: float = NOW.timestamp()
    monotonic_s: float = 1000.0

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.wall_s += seconds
        self.monotonic_s += seconds

    def step(self, seconds: float) -> None:
        """Somebody sets the date; no time passes."""
        self.wall_s += seconds


@dataclass
class Bed:
    """A server in this process that a test can stop and start again on the same data."""

    settings: Settings
    clocks: Clocks
    key: Ed25519PrivateKey
    client: TestClient

    def upload(self, license_: License) -> None:
        """Put a license in force."""
        reply = self.client.post("/ls", files={"file": codec.sign(license_, self.key)})
        assert reply.status_code == 200, reply.text

    def ask(self, *gpus: str, uid: str = "uid-1") -> dict[str, object]:
        """Ask for GPUs as the pod `uid`."""
        holder = {"namespace": "demo", "pod": f"pod-{uid}", "uid": uid, "service": "qwen"}
        body: dict[str, object] = self.client.post("/v1/leases", json={"gpus": gpus, "holder": holder}).json()
        return body

    def audit_events(self) -> list[str]:
        """The kinds of the audit records, oldest first."""
        lines = self.client.get("/ls/audit").text.splitlines()
        return [line.split('"event": "')[1].split('"')[0] for line in lines]


def _open(settings: Settings, clocks: Clocks, key: Ed25519PrivateKey) -> Bed:
    app = create_app(settings, wall=lambda: clocks.wall_s, monotonic=lambda: clocks.monotonic_s)
    return Bed(settings, clocks, key, TestClient(app, base_url="http://license"))


MakeServer = Callable[..., Bed]


@pytest.fixture
def a_server(tmp_path: Path, signing_key: Ed25519PrivateKey) -> Iterator[MakeServer]:
    """`a_server(clocks, admin_token=…)`; called again, it is a restart on the same data."""
    beds: list[Bed] = []

    def make(clocks: Clocks | None = None, **changes: object) -> Bed:
        if beds:
            beds[-1].client.__exit__()
        settings = replace(Settings(tmp_path / "data", by_id([signing_key.public_key()])), **changes)
        beds.append(_open(settings, clocks or Clocks(), signing_key))
        beds[-1].client.__enter__()
        return beds[-1]

    yield make
    if beds:
        beds[-1].client.__exit__()


@pytest.fixture
def clocks() -> Clocks:
    """Clocks at the beginning of the test."""
    return Clocks()


@pytest.fixture
def server(a_server: MakeServer, clocks: Clocks) -> Bed:
    """A server without an admin token and without a license."""
    return a_server(clocks)
