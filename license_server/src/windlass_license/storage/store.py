"""What must survive a crash: the license file, the leases, the audit log, the latest time seen. SQLite in one file.

WAL with synchronous=FULL: what a transaction wrote is on disk when it ends, all of it or nothing. The audit log is a
table of the same file, so that a lease and its record cannot part. Holds no rules: `service` decides.

`epoch` is the fence between replicas on one volume: whoever becomes active counts it up, and a transaction of an
earlier epoch is refused, however long its process was paused.
"""

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from windlass_license.errors import SettingsError, StandByError
from windlass_license.rules.audit_rings import Ring
from windlass_license.rules.book import Changes
from windlass_license.rules.model import Holder, Lease

FILE_NAME = "license.sqlite3"
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises on a damaged file; the second when the damage is in a text that its message quotes."""
SYNCHRONOUS = "FULL"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCHEMA_VERSION = 2
"""The first release refuses a file with a higher `user_version`, and must read ours when it comes back."""
_LAYOUT_VERSION = 1
"""Of what later releases added beside the first one's tables (table `layout`)."""
_RECORD_BYTES = 32 * 1024
"""A record is cut far below this; an earlier version stored larger ones."""
_LEASE_BYTES = 8 * 1024
"""64 device names of 80 characters each, as JSON."""

_SCHEMA = """
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), seen_us INTEGER NOT NULL) STRICT;
CREATE TABLE license (id INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL, installed_us INTEGER NOT NULL) STRICT;
CREATE TABLE leases (
  id TEXT PRIMARY KEY, uid TEXT NOT NULL, gpus TEXT NOT NULL, namespace TEXT NOT NULL, pod TEXT NOT NULL,
  service TEXT NOT NULL, granted_us INTEGER NOT NULL, expires_us INTEGER NOT NULL, renewals INTEGER NOT NULL,
  UNIQUE (uid, gpus)) STRICT;
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL) STRICT;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
"""
_UPGRADES = {
    0: _SCHEMA,
    1: """
CREATE TABLE fence (id INTEGER PRIMARY KEY CHECK (id = 1), epoch INTEGER NOT NULL) STRICT;
INSERT INTO fence VALUES (1, 0);
DROP INDEX IF EXISTS leases_by_expiry;
""",
}
"""What brings a file of each version to the next one."""

_ASKED = f"""
CREATE TABLE layout (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL) STRICT;
INSERT INTO layout VALUES (1, {_LAYOUT_VERSION});
CREATE TABLE asked (id TEXT PRIMARY KEY, asked_us INTEGER NOT NULL) STRICT;
"""  # noqa: S608  only numbers of this file are put in
# The first release writes leases and knows nothing of `asked`: the file itself keeps it.
_ASKED_TRIGGERS = """
CREATE TRIGGER asked_is_renewed AFTER UPDATE OF expires_us ON leases
BEGIN INSERT OR REPLACE INTO asked VALUES (NEW.id, CAST(strftime('%s', 'now') AS INTEGER) * 1000000); END;
CREATE TRIGGER asked_goes AFTER DELETE ON leases BEGIN DELETE FROM asked WHERE id = OLD.id; END;
"""
_ADDITIONS = f"""
DROP TRIGGER audit_is_append_only;
ALTER TABLE audit ADD COLUMN ring INTEGER NOT NULL DEFAULT {Ring.LEASES:d};
INSERT INTO audit (record, ring)
  SELECT json_object('at', strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'), 'event', 'dropped',
    'what', 'audit records of more than {_RECORD_BYTES // 1024} KiB', 'count', count(*)), {Ring.LICENSES:d}
  FROM audit WHERE length(CAST(record AS BLOB)) > {_RECORD_BYTES} HAVING count(*) > 0;
INSERT INTO audit (record, ring)
  SELECT json_object('at', strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now'), 'event', 'dropped',
    'what', 'leases of more than {_LEASE_BYTES // 1024} KiB', 'count', count(*)), {Ring.LICENSES:d}
  FROM leases WHERE length(CAST(gpus AS BLOB)) > {_LEASE_BYTES} HAVING count(*) > 0;
DELETE FROM leases WHERE length(CAST(gpus AS BLOB)) > {_LEASE_BYTES};
DELETE FROM audit WHERE length(CAST(record AS BLOB)) > {_RECORD_BYTES};
UPDATE audit SET ring = {Ring.LICENSES:d} WHERE substr(record, 1, 80) LIKE '%"event": "uploaded"%';
UPDATE audit SET ring = {Ring.REFUSALS:d} WHERE substr(record, 1, 80) LIKE '%"event": "refused"%'
  OR substr(record, 1, 80) LIKE '%"event": "uploadRefused"%';
CREATE INDEX audit_by_ring ON audit (ring, id);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
{_ASKED}{_ASKED_TRIGGERS}
"""  # noqa: S608  only numbers of this file are put in
"""What this release adds to a file of the first one, which can still read and write it."""

_UNRELEASED_VERSION = 3
_FROM_UNRELEASED = f"""
{_ASKED}
INSERT INTO asked SELECT id, asked_us FROM leases WHERE asked_us > 0;
ALTER TABLE leases DROP COLUMN asked_us;
{_ASKED_TRIGGERS}
PRAGMA user_version = {_SCHEMA_VERSION};
"""  # noqa: S608  only numbers of this file are put in
"""Builds between the releases had `asked_us` in the leases, which the first release cannot write."""


@dataclass(frozen=True, slots=True)
class AuditBounds:
    """The audit log keeps at most this much; the oldest records make room."""

    rows: int = 1_000_000
    bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which records to read: SQL conditions with their values, and how many of the newest."""

    limit: int = 1000
    conditions: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A record to store: its ring, the namespace that it is about (empty: none), its JSON text."""

    ring: Ring
    namespace: str
    text: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Records that made room: how many, their bytes, and the number of the newest."""

    rows: int
    bytes: int
    last: int


class Transaction:
    """One atomic change; made by `Store.transaction` only."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def last_seen(self) -> datetime | None:
        """The latest time that any transaction recorded."""
        row = self._db.execute("SELECT seen_us FROM clock").fetchone()
        return None if row is None else _moment(row[0])

    def saw(self, now: datetime) -> None:
        """Record the time of this change."""
        self._db.execute(
            "INSERT INTO clock VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET seen_us = excluded.seen_us", (_us(now),)
        )

    def take_over(self) -> int:
        """Begin an epoch: from now on every earlier one is refused."""
        return int(self._db.execute("UPDATE fence SET epoch = epoch + 1 RETURNING epoch").fetchone()[0])

    def check_epoch(self, epoch: int) -> None:
        """StandByError when another replica took over since."""
        (current,) = self._db.execute("SELECT epoch FROM fence").fetchone()
        if current != epoch:
            raise StandByError("another replica of the license server took over; ask again")

    def license(self) -> bytes | None:
        """The license file in force."""
        row = self._db.execute(_SELECT_LICENSE).fetchone()
        return None if row is None else bytes(row[0])

    def replace_license(self, blob: bytes, now: datetime) -> None:
        """Put a file in force instead of whatever was."""
        self._db.execute("DELETE FROM license")
        self._db.execute("INSERT INTO license (blob, installed_us) VALUES (?, ?)", (blob, _us(now)))

    def leases(self) -> tuple[Lease, ...]:
        """Every stored lease, the oldest first."""
        return tuple(_lease(row) for row in self._db.execute(f"{_SELECT_LEASE} ORDER BY granted_us, id"))

    def drop_unreadable_leases(self, most: int) -> int:
        """Remove what no version of this server would store now, and all but the `most` oldest; how many went."""
        gone = self._db.execute("DELETE FROM leases WHERE length(CAST(gpus AS BLOB)) > ?", (_LEASE_BYTES,)).rowcount
        oldest = "SELECT id FROM leases ORDER BY granted_us, id LIMIT ?"
        gone += self._db.execute(f"DELETE FROM leases WHERE id NOT IN ({oldest})", (most,)).rowcount  # noqa: S608  no input
        damaged = [(row[0],) for row in self._db.execute(f"{_SELECT_LEASE}") if not _readable(row)]
        self._db.executemany("DELETE FROM leases WHERE id = ?", damaged)
        return gone + len(damaged)

    def apply(self, changes: Changes) -> None:
        """Make the stored leases equal to the book that these changes are from."""
        if changes.gone:
            self._db.executemany("DELETE FROM leases WHERE id = ?", [(lease_id,) for lease_id in changes.gone])
        if changes.added:
            self._db.executemany(
                "INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_row, changes.added.values())
            )
            self._asked(lease for lease in changes.added.values() if lease.asked)
        if changes.renewed:
            rows = [(_us(lease.expires), lease.renewals, lease.id) for lease in changes.renewed.values()]
            self._db.executemany("UPDATE leases SET expires_us = ?, renewals = ? WHERE id = ?", rows)
            self._asked(changes.renewed.values())

    def _asked(self, leases: Iterable[Lease]) -> None:
        """After the leases themselves: the trigger has put the time of day there."""
        rows = [(lease.id, _us(lease.asked or lease.granted)) for lease in leases]
        self._db.executemany("INSERT OR REPLACE INTO asked VALUES (?, ?)", rows)

    def record(self, records: Iterable[AuditRow]) -> None:
        """Append JSON texts to their rings of the audit log."""
        rows = ((row.ring, row.text) for row in records)
        self._db.executemany("INSERT INTO audit (ring, record) VALUES (?, ?)", rows)

    def audit_sizes(self) -> dict[Ring, AuditBounds]:
        """How much each ring of the audit log holds."""
        rows = self._db.execute("SELECT ring, count(*), sum(length(CAST(record AS BLOB))) FROM audit GROUP BY ring")
        return {Ring(row[0]): AuditBounds(rows=row[1], bytes=row[2]) for row in rows}

    def last_record(self) -> int:
        """The number of the newest record; 0 in an empty log."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM audit").fetchone()[0])

    def forget_oldest(self, ring: Ring, count: int) -> AuditBounds:
        """Remove the oldest records of a ring; how much they were."""
        gone = self._forget("ring = ?", (ring,), count)
        return AuditBounds(gone.rows, gone.bytes)

    def forget_ended(self, ring: Ring, count: int, namespace: str | None, behind: int) -> Forgotten:
        """Remove the oldest records behind one that are of no lease that lives; of one namespace, or None for all."""
        if namespace is None:
            return self._forget(f"ring = ? AND id > ? AND NOT {_LIVES}", (ring, behind), count)
        of = f"ring = ? AND id > ? AND {_NAMESPACE} = ? AND NOT {_LIVES}"
        return self._forget(of, (ring, behind, namespace), count)

    def _forget(self, which: str, values: tuple[object, ...], count: int) -> Forgotten:
        rows = self._db.execute(
            f"DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE {which} ORDER BY id LIMIT ?) "  # noqa: S608  no input
            "RETURNING id, length(CAST(record AS BLOB))",
            (*values, count),
        ).fetchall()
        return Forgotten(len(rows), sum(row[1] for row in rows), max((row[0] for row in rows), default=0))


class Store:
    """One SQLite file in `directory`: one writer, and readers of the audit log beside it."""

    def __init__(self, directory: Path) -> None:
        self._lock, self._reading = threading.Lock(), threading.Lock()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            file = directory / FILE_NAME
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
            self._prepare()
            _sync_directory(directory)
            self._reader = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            # A damaged byte is no reason to stop: it shows as U+FFFD, and what reads the text checks it.
            self._db.text_factory = self._reader.text_factory = _text
        except (OSError, sqlite3.OperationalError) as error:
            raise SettingsError(f"cannot keep licenses in {directory}: {error}; give a writable directory") from error
        except UNREADABLE as error:
            raise damaged(directory, error) from error

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of the body, on disk when it ends, or nothing of it when it raises."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(self._db)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def audit(self, query: AuditQuery) -> Sequence[str]:
        """The newest matching audit records as JSON texts, oldest first; the writer does not wait for it.

        One flipped byte of a row's header makes its text a BLOB or a number; such a record comes as Python writes it.
        """
        conditions = query.conditions or {}
        valid = f"CASE WHEN json_valid(record) THEN {' AND '.join(conditions)} END"  # a damaged record matches nothing
        where = f"WHERE {valid}" if conditions else ""
        with self._reading:
            rows = self._reader.execute(
                f"SELECT record FROM audit {where} ORDER BY id DESC LIMIT ?",  # noqa: S608  conditions are ours
                (*conditions.values(), query.limit),
            ).fetchall()
        return [row[0] if isinstance(row[0], str) else repr(row[0]) for row in reversed(rows)]

    def license_file(self) -> bytes | None:
        """The license file in force; the writer does not wait for it."""
        with self._reading:
            row = self._reader.execute(_SELECT_LICENSE).fetchone()
        return row[0] if row is not None and isinstance(row[0], bytes) else None  # a damaged row has another type

    def check(self) -> None:
        """Raise when the file cannot be read any more."""
        with self._reading:
            self._reader.execute("SELECT seen_us FROM clock").fetchone()

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with self._lock, self._reading:
            self._reader.close()
            self._db.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == _UNRELEASED_VERSION:
            self._db.executescript(f"BEGIN IMMEDIATE; {_FROM_UNRELEASED} COMMIT;")
            return
        if version > _SCHEMA_VERSION:
            raise sqlite3.OperationalError(f"{FILE_NAME} has schema {version}, this version writes {_SCHEMA_VERSION}")
        for step in range(version, _SCHEMA_VERSION):
            self._db.executescript(f"BEGIN IMMEDIATE; {_UPGRADES[step]} PRAGMA user_version = {step + 1}; COMMIT;")
        layout = self._layout()
        if layout > _LAYOUT_VERSION:
            raise sqlite3.OperationalError(f"{FILE_NAME} has layout {layout}, this version writes {_LAYOUT_VERSION}")
        if not layout:
            self._db.executescript(f"BEGIN IMMEDIATE; {_ADDITIONS} COMMIT;")

    def _layout(self) -> int:
        """What later releases added; 0 in a file of the first one."""
        if not self._db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'layout'").fetchone():
            return 0
        return int(self._db.execute("SELECT version FROM layout").fetchone()[0])


def damaged(directory: Path, error: Exception) -> SettingsError:
    """The error for a database that cannot be read."""
    return SettingsError(
        f"{directory / FILE_NAME} is damaged: {error}; restore it from a backup, or move it away and upload the "
        "license again"
    )


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


# A damaged record is no JSON; it is of no namespace and of no lease.
_NAMESPACE = "coalesce(CASE WHEN json_valid(record) THEN record ->> '$.namespace' END, '')"
_LIVES = "coalesce(CASE WHEN json_valid(record) THEN record ->> '$.lease' END, '') IN (SELECT id FROM leases)"
_SELECT_LICENSE = "SELECT blob FROM license ORDER BY id DESC LIMIT 1"
_SELECT_LEASE = (
    "SELECT id, gpus, namespace, pod, uid, service, granted_us, expires_us, renewals, asked_us "
    "FROM leases LEFT JOIN asked USING (id)"
)


def _readable(row: tuple[Any, ...]) -> bool:
    try:
        return bool(_lease(row).gpus)
    except (ValueError, TypeError, OverflowError):
        return False


def _lease(row: tuple[Any, ...]) -> Lease:
    holder = Holder(namespace=row[2], pod=row[3], uid=row[4], service=row[5])
    gpus = tuple(map(str, json.loads(row[1])))
    asked = _moment(row[9]) if row[9] else None
    return Lease(row[0], gpus, holder, _moment(row[6]), _moment(row[7]), row[8], asked)


def _row(lease: Lease) -> tuple[str | int, ...]:
    holder = lease.holder
    who = (lease.id, holder.uid, json.dumps(lease.gpus), holder.namespace, holder.pod, holder.service)
    return (*who, _us(lease.granted), _us(lease.expires), lease.renewals)


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _sync_directory(directory: Path) -> None:
    """A new file is found after a power cut only when its directory is on disk, too."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
