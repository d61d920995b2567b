"""What must survive a restart: the license file, the leases, the audit log, the latest time seen. SQLite in one file.

WAL with synchronous=FULL: an answer that left the server is on disk. Every change runs in one BEGIN IMMEDIATE
transaction, so that two requests, or two processes by mistake, decide one after the other. Holds no rules: `service`
asks `gate` inside a transaction.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from windlass_license.errors import SettingsError
from windlass_license.model import Holder, Lease

FILE_NAME = "license.sqlite3"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SCHEMA_VERSION = 1
_ROTATE_EVERY = 256

_SCHEMA = """
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), seen_us INTEGER NOT NULL) STRICT;
CREATE TABLE license (id INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL, installed_us INTEGER NOT NULL) STRICT;
CREATE TABLE leases (
  id TEXT PRIMARY KEY, uid TEXT NOT NULL, gpus TEXT NOT NULL, namespace TEXT NOT NULL, pod TEXT NOT NULL,
  service TEXT NOT NULL, granted_us INTEGER NOT NULL, expires_us INTEGER NOT NULL, renewals INTEGER NOT NULL,
  UNIQUE (uid, gpus)) STRICT;
CREATE INDEX leases_by_expiry ON leases (expires_us);
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL) STRICT;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
"""


@dataclass(frozen=True, slots=True)
class StoredLicense:
    """The bytes in force, and a number that changes with every upload."""

    id: int
    blob: bytes


class Transaction:
    """One atomic change; made by `Store.transaction` only."""

    def __init__(self, connection: sqlite3.Connection, audit_rows_max: int) -> None:
        self._db = connection
        self._audit_rows_max = audit_rows_max

    def last_seen(self) -> datetime | None:
        """The latest time that any transaction recorded."""
        row = self._db.execute("SELECT seen_us FROM clock").fetchone()
        return None if row is None else _moment(row[0])

    def saw(self, now: datetime) -> None:
        """Record the time of this change."""
        self._db.execute(
            "INSERT INTO clock VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET seen_us = excluded.seen_us", (_us(now),)
        )

    def license_id(self) -> int:
        """The number of the license in force; 0 when there is none."""
        row = self._db.execute("SELECT max(id) FROM license").fetchone()
        return int(row[0] or 0)

    def license(self) -> StoredLicense | None:
        """The license file in force."""
        row = self._db.execute("SELECT id, blob FROM license ORDER BY id DESC LIMIT 1").fetchone()
        return None if row is None else StoredLicense(row[0], row[1])

    def replace_license(self, blob: bytes, now: datetime) -> StoredLicense:
        """Put a file in force instead of whatever was."""
        self._db.execute("DELETE FROM license")
        row = self._db.execute("INSERT INTO license (blob, installed_us) VALUES (?, ?) RETURNING id", (blob, _us(now)))
        return StoredLicense(row.fetchone()[0], blob)

    def live_leases(self, now: datetime) -> tuple[Lease, ...]:
        """The leases that have not lapsed at `now`."""
        rows = self._db.execute(f"{_SELECT_LEASE} WHERE expires_us > ?", (_us(now),))
        return tuple(_lease(row) for row in rows)

    def take_lapsed(self, now: datetime) -> tuple[Lease, ...]:
        """Remove and return the leases that have lapsed at `now`."""
        rows = self._db.execute(f"{_SELECT_LEASE} WHERE expires_us <= ?", (_us(now),)).fetchall()
        if rows:
            self._db.execute("DELETE FROM leases WHERE expires_us <= ?", (_us(now),))
        return tuple(_lease(row) for row in rows)

    def add_lease(self, lease: Lease) -> None:
        """Record a granted lease."""
        holder = lease.holder
        who = (holder.uid, json.dumps(lease.gpus), holder.namespace, holder.pod, holder.service)
        when = (_us(lease.granted), _us(lease.expires), lease.renewals)
        self._db.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (lease.id, *who, *when))

    def renew_lease(self, lease: Lease, now: datetime, ttl: timedelta) -> None:
        """Prolong a lease by one renewal at `now`."""
        expires, renewals = lease.renewed(now, ttl)
        self._db.execute(
            "UPDATE leases SET expires_us = ?, renewals = ? WHERE id = ?", (_us(expires), renewals, lease.id)
        )

    def take_lease(self, lease_id: str) -> Lease | None:
        """Remove and return one lease."""
        row = self._db.execute(f"{_SELECT_LEASE} WHERE id = ?", (lease_id,)).fetchone()
        self._db.execute("DELETE FROM leases WHERE id = ?", (lease_id,))
        return None if row is None else _lease(row)

    def give_back(self, absence: timedelta, since: datetime) -> None:
        """Prolong the leases that were live at `since` by time in which they could not be renewed."""
        self._db.execute(
            "UPDATE leases SET expires_us = expires_us + ? WHERE expires_us > ?", (absence // _MICROSECOND, _us(since))
        )

    def record(self, entry: dict[str, Any]) -> None:
        """Append to the audit log; the oldest records make room once there are too many."""
        text = json.dumps(entry, ensure_ascii=False)
        row_id = self._db.execute("INSERT INTO audit (record) VALUES (?)", (text,)).lastrowid or 0
        if row_id % _ROTATE_EVERY == 0:
            self._db.execute("DELETE FROM audit WHERE id <= ?", (row_id - self._audit_rows_max,))

    def audit_tail(self, count: int) -> tuple[str, ...]:
        """The newest `count` audit records as JSON texts, oldest first."""
        rows = self._db.execute("SELECT record FROM audit ORDER BY id DESC LIMIT ?", (count,)).fetchall()
        return tuple(row[0] for row in reversed(rows))


class Store:
    """One SQLite file in `directory`, used by all threads of the process in turn."""

    def __init__(self, directory: Path, audit_rows_max: int = 1_000_000) -> None:
        self._lock = threading.Lock()
        self._audit_rows_max = audit_rows_max
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(directory / FILE_NAME, isolation_level=None, check_same_thread=False, timeout=10)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(f"cannot keep licenses in {directory}: {error}; give a writable directory") from error

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of the body, on disk when it ends, or nothing of it when it raises."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(self._db, self._audit_rows_max)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        with self._lock:
            self._db.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
        elif version != _SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"{FILE_NAME} has schema {version}, this version writes {_SCHEMA_VERSION}")


_SELECT_LEASE = "SELECT id, gpus, namespace, pod, uid, service, granted_us, expires_us, renewals FROM leases"


def _lease(row: tuple[Any, ...]) -> Lease:
    holder = Holder(namespace=row[2], pod=row[3], uid=row[4], service=row[5])
    return Lease(row[0], tuple(json.loads(row[1])), holder, _moment(row[6]), _moment(row[7]), row[8])


def _us(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
