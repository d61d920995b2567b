"""What the store promises: all or nothing, on disk, append-only."""

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from windlass_license.errors import SettingsError, StandByError
from windlass_license.rules.audit_rings import Ring
from windlass_license.rules.book import Changes, LeaseBook
from windlass_license.rules.model import Holder, Lease
from windlass_license.storage.rotation import Rotation
from windlass_license.storage.store import _UPGRADES, FILE_NAME, AuditBounds, AuditQuery, AuditRow, Store

NOW = datetime(2026, 9, 6, 10, 0, 0, 123456, tzinfo=UTC)
LEASE = Lease("id", ("GPU-0", "GPU-1"), Holder("ns", "pod", "uid", "svc"), NOW, NOW + timedelta(seconds=60))


def test_a_failed_change_leaves_nothing(tmp_path: Path) -> None:
    """An exception in the middle rolls everything back."""
    store = Store(tmp_path)

    def fail() -> None:
        with store.transaction() as tx:
            tx.apply(Changes(added={LEASE.id: LEASE}))
            tx.record([AuditRow(Ring.LEASES, "", '{"event": "granted"}')])
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        fail()
    with store.transaction() as tx:
        assert tx.leases() == ()
    assert store.audit(AuditQuery()) == []
    store.close()


def test_lease_round_trip(tmp_path: Path) -> None:
    """A lease comes back as it was, to the microsecond."""
    store = Store(tmp_path)
    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
    renewed = LEASE.renewed(NOW, timedelta(minutes=5))
    with store.transaction() as tx:
        assert tx.leases() == (LEASE,)
        tx.apply(Changes(renewed={LEASE.id: renewed}))
    with store.transaction() as tx:
        assert tx.leases() == (renewed,)
        tx.apply(Changes(gone={LEASE.id}))
    with store.transaction() as tx:
        assert tx.leases() == ()
    store.close()


def test_the_same_pod_again_in_one_batch(tmp_path: Path) -> None:
    """A pod that releases and asks again before anything was stored has one lease, the new one."""
    store = Store(tmp_path)
    book = LeaseBook(None, [LEASE])
    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
        book.take(LEASE.id)
        book.add(replace(LEASE, id="second"))
        tx.apply(book.take_changes())
    with store.transaction() as tx:
        assert [lease.id for lease in tx.leases()] == ["second"]
    store.close()


def test_an_earlier_epoch_is_refused(tmp_path: Path) -> None:
    """A replica that was paused while another took over writes nothing more."""
    old, new = Store(tmp_path), Store(tmp_path)
    with old.transaction() as tx:
        epoch = tx.take_over()
    with new.transaction() as tx:
        tx.take_over()
    with pytest.raises(StandByError, match="took over"), old.transaction() as tx:
        tx.check_epoch(epoch)
    old.close()
    new.close()


def test_a_file_of_the_first_schema_is_brought_up(tmp_path: Path) -> None:
    """An earlier version's data is kept."""
    raw = sqlite3.connect(tmp_path / FILE_NAME)
    raw.executescript(_UPGRADES[0] + "CREATE INDEX leases_by_expiry ON leases (expires_us); PRAGMA user_version = 1;")
    raw.execute("INSERT INTO audit (record) VALUES ('{}')")
    raw.commit()
    raw.close()
    store = Store(tmp_path)
    assert store.audit(AuditQuery()) == ["{}"]
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
    store = Store(tmp_path)
    for bounds, most in ((AuditBounds(rows=300), 210), (AuditBounds(bytes=2000), 98)):
        with store.transaction() as tx:
            rotation = Rotation(bounds, tx.audit_sizes())
            for number in range(1000):
                rotation.append(tx, [AuditRow(Ring.LEASES, "", f'{{"event": {number}}}')])
        kept = store.audit(AuditQuery(limit=10_000))
        assert kept[-1] == '{"event": 999}'
        assert most // 2 <= len(kept) <= most
        with store.transaction() as tx:
            assert tx.audit_sizes() == {Ring.LEASES: AuditBounds(len(kept), sum(map(len, kept)))}
    store.close()
    raw = sqlite3.connect(tmp_path / FILE_NAME)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute("UPDATE audit SET record = ''")
    raw.close()


def test_a_namespace_that_writes_much_makes_room_itself(tmp_path: Path) -> None:
    """Records of other namespaces stay, and of its own those of a lease that lives."""
    store = Store(tmp_path)

    def row(event: str, namespace: str, lease: str) -> AuditRow:
        text = json.dumps({"event": event, "namespace": namespace, "lease": lease})
        return AuditRow(Ring.LEASES, namespace, text)

    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
        rotation = Rotation(AuditBounds(rows=1000), tx.audit_sizes())
        kept = [row(event, "quiet", f"lease-{number}") for number in range(100) for event in ("granted", "released")]
        rotation.append(tx, [*kept, row("granted", "busy", LEASE.id)])
        for number in range(2000):
            rotation.append(tx, [row("granted", "busy", f"more-{number}"), row("released", "busy", f"more-{number}")])
    with store.transaction() as tx:
        Rotation(AuditBounds(rows=1000), tx.audit_sizes()).append(tx, [row("granted", "busy", "last")])
    records = [json.loads(text) for text in store.audit(AuditQuery(limit=10_000))]
    assert len(records) <= 700
    assert sum(one["namespace"] == "quiet" for one in records) == len(kept)
    assert next(one["lease"] for one in records if one["namespace"] == "busy") == LEASE.id
    assert records[-1]["lease"] == "last"
    store.close()


def test_of_more_live_leases_than_records_the_oldest_make_room(tmp_path: Path) -> None:
    """The bound holds, whatever lives."""
    store = Store(tmp_path)
    live = {f"lease-{number}": replace(LEASE, id=f"lease-{number}", gpus=(f"GPU-{number}",)) for number in range(300)}
    with store.transaction() as tx:
        tx.apply(Changes(added=live))
        rotation = Rotation(AuditBounds(rows=200), tx.audit_sizes())
        for lease in live:
            rotation.append(tx, [AuditRow(Ring.LEASES, "ns", json.dumps({"event": "granted", "lease": lease}))])
    records = [json.loads(text)["lease"] for text in store.audit(AuditQuery(limit=10_000))]
    assert len(records) <= 140
    assert records[-1] == "lease-299"
    store.close()


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


# What the first release (0.1.0) asks its file and writes into it, word for word.
FIRST_SELECT = "SELECT id, gpus, namespace, pod, uid, service, granted_us, expires_us, renewals FROM leases"
FIRST_RENEWAL = "UPDATE leases SET expires_us = ?, renewals = ? WHERE id = ?"


def test_the_first_release_comes_back(tmp_path: Path) -> None:
    """It opens our file, finds lease and records, renews, grants and records; we read on what it wrote."""
    store = Store(tmp_path)
    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
        tx.record([AuditRow(Ring.LEASES, "", '{"event": "granted"}')])
    store.close()
    first = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    assert first.execute("PRAGMA user_version").fetchone() == (2,)
    assert first.execute(f"{FIRST_SELECT} ORDER BY granted_us, id").fetchone()[:2] == ("id", '["GPU-0", "GPU-1"]')
    ends = int((NOW + timedelta(hours=1)).timestamp() * 1e6)
    first.execute(FIRST_RENEWAL, (ends, 7, "id"))
    first.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                  ("other", "uid-2", '["GPU-2"]', "ns", "pod-2", "svc", ends, ends, 0))  # fmt: skip
    first.execute("INSERT INTO audit (record) VALUES (?)", ('{"event": "uploaded"}',))
    first.close()
    store = Store(tmp_path)
    with store.transaction() as tx:
        renewed, granted = tx.leases()
        assert tx.audit_sizes()[Ring.LEASES].rows == 2
    assert (renewed.renewals, granted.id) == (7, "other")
    assert renewed.expires == NOW + timedelta(hours=1)
    assert renewed.asked is not None
    assert store.audit(AuditQuery()) == ['{"event": "granted"}', '{"event": "uploaded"}']
    store.close()


def test_a_lease_that_the_first_release_drops_leaves_nothing(tmp_path: Path) -> None:
    """Neither the lease nor when its pod asked last."""
    store = Store(tmp_path)
    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
        tx.apply(Changes(renewed={LEASE.id: LEASE.renewed(NOW, timedelta(minutes=5))}))
    store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as first:
        assert first.execute("SELECT count(*) FROM asked").fetchone() == (1,)
        first.execute("DELETE FROM leases WHERE id = ?", ("id",))
        assert first.execute("SELECT count(*) FROM asked").fetchone() == (0,)
    first.close()


def test_a_file_of_a_build_between_the_releases(tmp_path: Path) -> None:
    """Its leases lose the column that the first release cannot write, and keep when their pods asked."""
    store = Store(tmp_path)
    with store.transaction() as tx:
        tx.apply(Changes(added={LEASE.id: LEASE}))
    store.close()
    asked = NOW + timedelta(seconds=20)
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        raw.executescript(
            "DROP TRIGGER asked_is_renewed; DROP TRIGGER asked_goes; DROP TABLE asked; DROP TABLE layout;"
            "ALTER TABLE leases ADD COLUMN asked_us INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 3;"
        )
        raw.execute("UPDATE leases SET asked_us = ?", (int(asked.timestamp()) * 1_000_000 + 123_456,))
    raw.close()
    for _ in range(2):  # converted once, found converted after that
        store = Store(tmp_path)
        with store.transaction() as tx:
            assert tx.leases() == (replace(LEASE, asked=asked),)
        store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (2,)
    raw.close()


def test_a_later_layout(tmp_path: Path) -> None:
    """A file to which a later release added something is not touched."""
    Store(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as raw:
        raw.execute("UPDATE layout SET version = 99")
    raw.close()
    with pytest.raises(SettingsError, match="has layout 99"):
        Store(tmp_path)
