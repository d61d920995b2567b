"""What the store promises: all or nothing, on disk, append-only."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from windlass_license.errors import SettingsError
from windlass_license.model import Holder, Lease
from windlass_license.store import FILE_NAME, Store

NOW = datetime(2026, 9, 6, 10, 0, 0, 123456, tzinfo=UTC)
LEASE = Lease("id", ("GPU-0", "GPU-1"), Holder("ns", "pod", "uid", "svc"), NOW, NOW + timedelta(seconds=60))


def test_a_failed_change_leaves_nothing(tmp_path: Path) -> None:
    """An exception in the middle rolls everything back."""
    store = Store(tmp_path)

    def fail() -> None:
        with store.transaction() as tx:
            tx.add_lease(LEASE)
            tx.record({"event": "granted"})
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        fail()
    with store.transaction() as tx:
        assert (tx.live_leases(NOW), tx.audit_tail(10)) == ((), ())
    store.close()


def test_lease_round_trip(tmp_path: Path) -> None:
    """A lease comes back as it was, to the microsecond."""
    store = Store(tmp_path)
    with store.transaction() as tx:
        tx.add_lease(LEASE)
    with store.transaction() as tx:
        assert tx.live_leases(NOW) == (LEASE,)
        assert tx.live_leases(LEASE.expires) == ()
        assert tx.take_lapsed(LEASE.expires) == (LEASE,)
        assert tx.take_lapsed(LEASE.expires) == ()
    store.close()


def test_durable_settings(tmp_path: Path) -> None:
    """WAL with a full sync on each commit."""
    store = Store(tmp_path)
    store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()


def test_audit_is_append_only_and_bounded(tmp_path: Path) -> None:
    """Records cannot be changed, and the oldest make room."""
    store = Store(tmp_path, audit_rows_max=100)
    with store.transaction() as tx:
        for number in range(600):
            tx.record({"event": number})
    with store.transaction() as tx:
        kept = tx.audit_tail(10_000)
    assert kept[-1] == '{"event": 599}'
    assert 100 <= len(kept) <= 356
    store.close()
    raw = sqlite3.connect(tmp_path / FILE_NAME)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute("UPDATE audit SET record = ''")
    raw.close()


def test_unusable_directory(tmp_path: Path) -> None:
    """The message names the directory and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"cannot keep licenses in .*file/data.*writable directory"):
        Store(tmp_path / "file" / "data")


def test_newer_schema(tmp_path: Path) -> None:
    """A file of a later version is not touched."""
    raw = sqlite3.connect(tmp_path / FILE_NAME)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(SettingsError, match="has schema 99"):
        Store(tmp_path)
