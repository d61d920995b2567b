"""The license server without HTTP: what each request reads, decides (`gate`), writes and records.

One method a request, each one transaction. `app` turns them into HTTP; tests call them directly.
"""

import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from windlass_license import codec
from windlass_license.clock import GuardedClock, Reading
from windlass_license.errors import LicenseFileError
from windlass_license.gate import gate, physical
from windlass_license.keys import PublicKeys
from windlass_license.model import Lease, LeaseRequest, License, State, Verdict
from windlass_license.store import Store, Transaction

log = logging.getLogger("windlass_license")
audit_log = logging.getLogger("windlass_license.audit")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict, and the lease behind it when it is not a refusal."""

    verdict: Verdict
    lease: Lease | None = None
    grace_s: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What `/metrics` shows."""

    license: License | None
    leases: int
    gpus_live: int
    clock_behind: timedelta


class LicenseService:
    """Answers lease requests and uploads from one store, one clock and the trusted keys."""

    def __init__(self, store: Store, clock: GuardedClock, keys: PublicKeys, ttl: timedelta) -> None:
        self._store, self._clock, self._keys, self.ttl = store, clock, keys, ttl
        self._cached: tuple[int, License | None] = (0, None)
        self._skipped = timedelta()
        self._forgive_downtime()

    def license_in_force(self) -> License | None:
        """The license that the next request will be decided by."""
        with self._store.transaction() as tx:
            return self._license(tx)

    def upload(self, blob: bytes) -> License:
        """Put a license file in force instead of all others; a refused file changes nothing."""
        now = self._clock.read().now
        try:
            license_ = codec.accept(blob, self._keys, now)
        except LicenseFileError as error:
            self.refuse_upload(error)
            raise
        entry = _entry(now, "uploaded", **_license_facts(license_))

        def change(tx: Transaction, _: Reading) -> None:
            self._cached = (tx.replace_license(blob, now).id, license_)
            tx.record(entry)

        self._write(change)
        _say(entry)
        return license_

    def refuse_upload(self, error: LicenseFileError) -> None:
        """Record an upload that was refused."""
        entry = _entry(self._clock.read().now, "uploadRefused", reason=error.reason, message=str(error))
        self._write(lambda tx, _: tx.record(entry))
        _say(entry)

    def lease(self, request: LeaseRequest) -> Answer:
        """Grant, renew or refuse; renewals are counted in the lease, everything else is recorded."""
        entries: list[dict[str, Any]] = []

        def change(tx: Transaction, reading: Reading) -> Answer:
            entries.extend(self._drop_lapsed(tx, reading.now))
            license_ = self._license(tx)
            verdict = gate(license_, tx.live_leases(reading.now), request, reading.now)
            lease = self._apply(tx, verdict, request, reading.now)
            if verdict.state is not State.RENEWED:
                entries.append(_verdict_entry(reading.now, verdict, request, lease))
                tx.record(entries[-1])
            return Answer(verdict, lease, license_.grace_s if license_ else 0)

        answer = self._write(change)
        _say(*entries)
        return answer

    def release(self, lease_id: str) -> None:
        """Give a lease's GPUs back; an unknown or lapsed lease is no error."""
        entries: list[dict[str, Any]] = []

        def change(tx: Transaction, reading: Reading) -> None:
            if (lease := tx.take_lease(lease_id)) is not None:
                entries.append(_entry(reading.now, "released", **_lease_facts(lease)))
                tx.record(entries[-1])

        self._write(change)
        _say(*entries)

    def audit_tail(self, count: int) -> tuple[str, ...]:
        """The newest audit records as JSON texts, oldest first."""
        with self._store.transaction() as tx:
            return tx.audit_tail(count)

    def in_force(self) -> Standing:
        """The figures of this moment."""
        reading = self._clock.read()
        with self._store.transaction() as tx:
            license_, leases = self._license(tx), tx.live_leases(reading.now)
        devices = {gpu for lease in leases for gpu in lease.gpus}
        gpus_live = len({physical(license_, gpu) for gpu in devices} if license_ else devices)
        return Standing(license_, len(leases), gpus_live, reading.behind)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    def _write(self, change: Callable[[Transaction, Reading], T]) -> T:
        """Run one change; time that the clock jumped over is given back to the leases first."""
        with self._store.transaction() as tx:
            reading = self._clock.read()
            if absence := reading.skipped - self._skipped:
                tx.give_back(absence, reading.now - absence)
            result = change(tx, reading)
            tx.saw(reading.now)
            self._skipped = reading.skipped
            return result

    def _forgive_downtime(self) -> None:
        """Pods could not renew while the server was away: their leases go on as if it had not been."""

        def change(tx: Transaction, reading: Reading) -> None:
            before = tx.last_seen()
            if before is not None and reading.now > before:
                tx.give_back(reading.now - before, before)

        self._write(change)

    def _license(self, tx: Transaction) -> License | None:
        """Parse and verify the stored file once per upload; a key that was withdrawn takes its license along."""
        if tx.license_id() != self._cached[0]:
            stored = tx.license()
            self._cached = (0, None) if stored is None else (stored.id, self._verified(stored.blob))
        return self._cached[1]

    def _verified(self, blob: bytes) -> License | None:
        try:
            return codec.verify(blob, self._keys)
        except LicenseFileError as error:
            log.warning("the stored license is not in force: %s", error)
            return None

    def _drop_lapsed(self, tx: Transaction, now: datetime) -> list[dict[str, Any]]:
        entries = [_entry(now, "lapsed", **_lease_facts(lease)) for lease in tx.take_lapsed(now)]
        for entry in entries:
            tx.record(entry)
        return entries

    def _apply(self, tx: Transaction, verdict: Verdict, request: LeaseRequest, now: datetime) -> Lease | None:
        if verdict.state is State.REFUSED:
            return None
        if verdict.renews is not None:
            tx.renew_lease(verdict.renews, now, self.ttl)
            return verdict.renews
        lease = Lease(secrets.token_hex(16), request.gpus, request.holder, now, now + self.ttl)
        tx.add_lease(lease)
        return lease


def _entry(now: datetime, event: str, **facts: object) -> dict[str, Any]:
    return {"at": now.isoformat(timespec="milliseconds"), "event": event, **facts}


def _license_facts(license_: License) -> dict[str, object]:
    expires = license_.expires_last.isoformat()
    return {
        "customer": license_.customer,
        "appid": license_.appid,
        "gpus": len(license_.gpus),
        "limit": license_.limit,
        "expires": expires,
    }


def _holder_facts(request: LeaseRequest | Lease) -> dict[str, object]:
    holder = request.holder
    return {"namespace": holder.namespace, "pod": holder.pod, "uid": holder.uid, "service": holder.service}


def _lease_facts(lease: Lease) -> dict[str, object]:
    return {"lease": lease.id, "gpus": lease.gpus, **_holder_facts(lease), "renewals": lease.renewals}


def _verdict_entry(now: datetime, verdict: Verdict, request: LeaseRequest, lease: Lease | None) -> dict[str, Any]:
    what = {"lease": lease.id} if lease is not None else {"reason": verdict.reason, "message": verdict.message}
    return _entry(now, verdict.state, **what, gpus=request.gpus, **_holder_facts(request))


def _say(*entries: dict[str, Any]) -> None:
    """The same records as lines on standard output, once they are on disk."""
    for entry in entries:
        audit_log.info(json.dumps(entry, ensure_ascii=False))
