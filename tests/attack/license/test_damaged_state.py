"""Attacks on the state directory: the database cut anywhere, and bytes flipped anywhere.

The server starts, or says in one sentence which file is damaged; when it runs, nothing of it answers 500, and no lease
is granted that the intact state would not have allowed. WINDLASS_FUZZ_EXAMPLES sets how many damages (default 40).
"""

import os
import random
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi.testclient import TestClient
from windlass_license.errors import SettingsError
from windlass_license.http.app import create_app
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import License, LicensedGpu
from windlass_license.settings import Settings

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
EXAMPLES = int(os.environ.get("WINDLASS_FUZZ_EXAMPLES", "40"))
GPUS, LIMIT = 12, 10
PATHS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/ls/view",
    "/ls/file",
    "/ls/audit",
    "/ls/audit?uid=uid-1",
    "/ls/audit?format=yaml",
)


def ask(client: TestClient, gpu: str, uid: str) -> int:
    """One lease request."""
    holder = {"namespace": "n", "pod": "p", "uid": uid, "service": "s"}
    return client.post("/v1/leases", json={"gpus": [gpu], "holder": holder}).status_code


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a license, ten leases and refusals, closed in order."""
    folder = tmp_path_factory.mktemp("state")
    with TestClient(create_app(Settings(folder, by_id([KEY.public_key()])))) as client:
        now = datetime.now(UTC)
        rows = tuple(LicensedGpu(f"GPU-{n}", "L20", now, now + timedelta(days=1)) for n in range(GPUS))
        assert client.post("/ls", files={"file": sign(License("1", "c", LIMIT, rows), KEY)}).status_code == 200
        for number in range(GPUS + 30):
            ask(client, f"GPU-{number}", f"uid-{number}")
    return folder


def hold(folder: Path) -> str:
    """Start on this directory and look at everything; how it went."""
    try:
        app = create_app(Settings(folder, by_id([KEY.public_key()])))
    except SettingsError as error:
        assert "license.sqlite3" in str(error) or str(folder) in str(error)
        return "refused"
    with TestClient(app, raise_server_exceptions=False) as client:
        for path in PATHS:
            assert client.get(path).status_code in (200, 404, 503), path
        granted = sum(ask(client, f"GPU-{number}", f"uid-{number}") == 200 for number in range(GPUS))
        assert granted <= LIMIT
    return "runs"


def damaged(state: Path, folder: Path, change: bytes) -> Path:
    """A copy of the directory with another database."""
    shutil.copytree(state, folder, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
    (folder / "license.sqlite3").write_bytes(change)
    return folder


def test_a_cut_database(state: Path, tmp_path: Path) -> None:
    """Low of the attack: cut at every eighth of its length, and in the first pages."""
    raw = (state / "license.sqlite3").read_bytes()
    ends = sorted({1, 50, 99, 100, 4095, 4096, 4097, *(len(raw) * part // 8 for part in range(1, 8))})
    found = [hold(damaged(state, tmp_path / str(end), raw[:end])) for end in ends]
    assert "refused" in found


def test_flipped_bytes(state: Path, tmp_path: Path) -> None:
    """One to eight bytes anywhere; most are never seen, and none is a fault."""
    raw, chance = (state / "license.sqlite3").read_bytes(), random.Random(24)  # noqa: S311  chance, no secret
    used = [place for place in range(len(raw)) if raw[place]]
    for number in range(EXAMPLES):
        change = bytearray(raw)
        for place in chance.sample(used, chance.randrange(1, 9)):
            change[place] = chance.randrange(256)
        folder = damaged(state, tmp_path / str(number), bytes(change))
        assert hold(folder) in ("runs", "refused")
        shutil.rmtree(folder)


@pytest.mark.parametrize("record", [b"\xff{", 7, None, '{"event": "granted", "uid": "\\ud800"}'])
def test_a_record_of_another_type(state: Path, tmp_path: Path, record: object) -> None:
    """A flipped byte of a row's header makes a text a BLOB, a number or nothing; another makes half of a character."""
    folder = damaged(state, tmp_path / "state", (state / "license.sqlite3").read_bytes())
    with sqlite3.connect(folder / "license.sqlite3") as db:
        db.execute("PRAGMA writable_schema = ON")
        for kind in (" STRICT", " NOT NULL"):
            db.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, '') WHERE name = 'audit'", (kind,))
    db.close()
    with sqlite3.connect(folder / "license.sqlite3") as db:
        db.execute("INSERT INTO audit (record, ring) VALUES (?, 0)", (record,))
    db.close()
    assert hold(folder) == "runs"
