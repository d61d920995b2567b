"""The license server without HTTP: what a batch of requests reads, decides (`gate`), changes and records.

A request is a job: a function of the round it runs in. `commit` runs many jobs, one after the other, on the book in
memory, and stores what they changed as one transaction. Their answers may leave the server only after it returned.
Must not import the web framework; `commits` brings the batches, `app` turns answers into HTTP.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from windlass_license.clock import GuardedClock
from windlass_license.dates import later
from windlass_license.errors import FileRefusal, LicenseFileError, SettingsError, StoreError
from windlass_license.license_file import codec
from windlass_license.license_file.answer_key import Signer, certificate_header, encode
from windlass_license.license_file.keys import PublicKeys
from windlass_license.rules import audit
from windlass_license.rules.audit_rings import RINGS
from windlass_license.rules.book import LeaseBook
from windlass_license.rules.gate import gate
from windlass_license.rules.model import (
    DEFAULT_GRACE_S,
    Lease,
    LeaseBounds,
    LeaseRequest,
    License,
    State,
    Verdict,
)
from windlass_license.rules.refusals import Refusals
from windlass_license.storage.rotation import Rotation
from windlass_license.storage.store import UNREADABLE, AuditBounds, AuditQuery, AuditRow, Store, Transaction

log = logging.getLogger("windlass_license")
audit_log = logging.getLogger("windlass_license.audit")


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict, and the lease behind it when it is not a refusal."""

    verdict: Verdict
    lease: Lease | None = None
    grace_s: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What `/metrics` shows of the active server."""

    license: License | None
    leases: int
    gpus_live: int
    now: datetime
    clock_behind: timedelta


@dataclass(slots=True)
class Round:
    """One batch: its time, the book it changes, and what else is to be stored."""

    now: datetime
    book: LeaseBook
    records: list[audit.Entry] = field(default_factory=list)
    blob: bytes | None = None
    signer: Signer | None = None


Job = Callable[[Round], Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a server is told once: whose licenses count, how long a lease lasts, how much audit log is kept."""

    keys: PublicKeys
    ttl: timedelta
    audit: AuditBounds = field(default_factory=AuditBounds)
    leases: LeaseBounds = field(default_factory=LeaseBounds)
    answer_key: Ed25519PrivateKey | None = None


class LicenseService:
    """Answers from one store and one clock; `fence` raises as soon as this replica may not answer any more."""

    def __init__(
        self, store: Store, clock: GuardedClock, rules: Rules, fence: Callable[[], None] = lambda: None
    ) -> None:
        self._store, self._clock, self._rules, self._fence = store, clock, rules, fence
        self.ttl = rules.ttl
        self._skipped = timedelta()
        self._signs: Signer | None = None
        self._book = LeaseBook(None, bounds=rules.leases)
        self._refusals = Refusals()
        with store.transaction() as tx:
            fence()
            self._epoch = tx.take_over()
            self._rotation = Rotation(rules.audit, tx.audit_sizes())
            begun = self._begin(tx)
        _say(begun)
        self._stale = False

    def commit(self, jobs: Sequence[Job]) -> list[Any]:
        """Run the jobs and make what they did durable; when that fails, nothing of it happened."""
        self._fence()
        try:
            with self._store.transaction() as tx:
                tx.check_epoch(self._epoch)
                round_ = self._round(tx)
                answers = [job(round_) for job in jobs]
                self._store_round(tx, round_)
        except UNREADABLE as error:
            self._stale = True
            raise StoreError(f"the license server cannot write its data: {error}; look at its volume") from error
        except BaseException:
            self._stale = True
            raise
        self._fence()
        if round_.blob is not None:
            self._signs = round_.signer
        _say(round_.records)
        return answers

    def license_in_force(self) -> License | None:
        """The license that the next request will be decided by."""
        return self._book.license

    def license_file(self) -> bytes | None:
        """The file of the license in force, as it was uploaded."""
        try:
            return None if self._book.license is None else self._store.license_file()
        except UNREADABLE as error:
            raise StoreError(f"the license server cannot read its license: {error}; look at its volume") from error

    def upload(self, blob: bytes, allow_older: bool = False) -> tuple[License, Job]:
        """Check a license file now; the job puts it in force instead of all others. A refused file raises.

        The job answers a LicenseFileError when a license with a higher serial is in force and nobody allowed that.
        """
        license_ = codec.accept(blob, self._rules.keys, self._clock.read().now)

        def install(round_: Round) -> LicenseFileError | None:
            older = license_.serial < (round_.book.license.serial if round_.book.license else 0)
            if older and not allow_older:
                return _older(license_, round_.book.license)
            round_.blob = blob
            round_.book.install(license_)
            round_.signer = self._signer(blob, license_)
            round_.records.append(audit.uploaded(round_.now, license_, older))
            return None

        return license_, install

    def refuse_upload(self, error: LicenseFileError) -> Job:
        """Record an upload that was refused."""
        return lambda round_: round_.records.append(audit.upload_refused(round_.now, error))

    def lease(self, request: LeaseRequest) -> Job:
        """Grant, renew or refuse."""
        return lambda round_: self._decide(round_, request)

    def answer_key(self) -> Ed25519PublicKey:
        """The public half of the key that signs answers."""
        if self._rules.answer_key is None:
            raise SettingsError("this server has no answer key")
        return self._rules.answer_key.public_key()

    def signer(self) -> Signer | None:
        """What signs answers; None while the license in force certifies no key of this server."""
        return self._signs

    def release(self, lease_id: str, uid: str | None = None) -> Job:
        """Give a lease's GPUs back, when it is of the pod `uid`; an unknown or lapsed lease is no error."""

        def take(round_: Round) -> None:
            if (lease := round_.book.take(lease_id, uid)) is not None:
                round_.records.append(audit.lease_ended(round_.now, "released", lease))

        return take

    def audit_records(self, query: AuditQuery) -> Sequence[str]:
        """The newest matching audit records as JSON texts, oldest first."""
        try:
            return self._store.audit(query)
        except UNREADABLE as error:
            raise StoreError(f"the license server cannot read its audit log: {error}; look at its volume") from error

    def standing(self) -> Standing:
        """The figures of this moment."""
        reading, book = self._clock.read(), self._book
        # Time that was jumped over since the last commit is given back to the leases by the next one.
        leases, gpus = book.live(reading.now - (reading.skipped - self._skipped))
        return Standing(book.license, leases, gpus, reading.now, reading.behind)

    def check(self) -> None:
        """StoreError when the store cannot be read any more."""
        try:
            self._store.check()
        except UNREADABLE as error:
            raise StoreError(f"the license server cannot read its data: {error}; look at its volume") from error

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    def _begin(self, tx: Transaction) -> list[audit.Entry]:
        """Read the book. Pods could not renew while no server was active: that time is given back to them.

        The answer is what a stored state had beyond the bounds of this server, as audit records.
        """
        bounds = self._rules.leases
        unreadable = tx.drop_unreadable_leases(bounds.devices)
        self._book = LeaseBook(self._stored_license(tx), tx.leases(), bounds, self._book.lapsed)
        excess = self._book.take_excess()
        self._refusals = Refusals()
        reading, before = self._clock.read(), tx.last_seen()
        self._skipped = reading.skipped
        if before is not None and reading.now > before:
            self._book.give_back(reading.now - before, before, self._longest())
        elif before is not None and reading.now < before:  # --trust-clock: `before` is of a false future
            self._book.bring_back(reading.now, self.ttl)
        tx.apply(self._book.take_changes())
        dropped = (
            ("leases with names or numbers that cannot be read", unreadable),
            ("leases beyond what one GPU or this server takes, or on devices with no name of NVIDIA's", len(excess)),
        )
        records = [audit.dropped(reading.now, what, count) for what, count in dropped if count]
        self._rotation.append(tx, _rows(records))
        tx.saw(reading.now)
        return records

    def _longest(self) -> timedelta:
        """How long after its last question a pod may still serve: the lease, then the license's grace."""
        license_ = self._book.license
        return self.ttl + (license_.grace if license_ else timedelta(seconds=DEFAULT_GRACE_S))

    def _round(self, tx: Transaction) -> Round:
        """Bring the book to this moment: time that the clock jumped over is given back, lapsed leases are dropped."""
        if self._stale:
            self._rotation = Rotation(self._rules.audit, tx.audit_sizes())
            _say(self._begin(tx))
            self._stale = False
        reading = self._clock.read()
        if absence := reading.skipped - self._skipped:
            self._book.give_back(absence, reading.now - absence, self._longest())
            self._skipped = reading.skipped
        round_ = Round(reading.now, self._book)
        lapsed = self._book.take_lapsed(reading.now)
        round_.records.extend(audit.lease_ended(lease.expires, "lapsed", lease) for lease in lapsed)
        return round_

    def _store_round(self, tx: Transaction, round_: Round) -> None:
        if round_.blob is not None:
            tx.replace_license(round_.blob, round_.now)
        tx.apply(round_.book.take_changes())
        self._rotation.append(tx, _rows(round_.records))
        tx.saw(round_.now)

    def _decide(self, round_: Round, request: LeaseRequest) -> Answer:
        verdict, now, book = gate(round_.book, request, round_.now, self.ttl), round_.now, round_.book
        grace_s = int(book.license.grace.total_seconds()) if book.license else 0
        if verdict.state is State.REFUSED:
            counts = self._refusals.to_record(verdict, request, now)
            if counts is not None:
                round_.records.append(audit.refused(now, verdict, request, counts))
            return Answer(verdict)
        if verdict.renews is not None:
            renewed = verdict.renews.renewed(now, self.ttl)
            if book.held(request) is None:  # it had lapsed, and the audit log has that
                self._refusals.forget(request)
                round_.records.append(audit.granted(now, renewed))
            book.renew(renewed)
            return Answer(verdict, renewed, grace_s)
        lease = Lease(secrets.token_hex(16), request.gpus, request.holder, now, later(now, self.ttl))
        book.add(lease)
        self._refusals.forget(request)
        round_.records.append(audit.granted(now, lease))
        return Answer(verdict, lease, grace_s)

    def _signer(self, blob: bytes, license_: License) -> Signer | None:
        key = self._rules.answer_key
        if key is None or not license_.answer_key:
            return None
        if license_.answer_key != encode(key.public_key()):
            log.warning("the license certifies another answer key than this server's; answers carry no signature")
            return None
        certified = codec.certified(license_)
        return Signer(key, certificate_header(certified, license_.answer_certificate, codec.issuer_of(blob)))

    def _stored_license(self, tx: Transaction) -> License | None:
        """The stored file, verified again: a key that was withdrawn takes its license along."""
        blob, self._signs = tx.license(), None
        try:
            license_ = None if blob is None else codec.verify(blob, self._rules.keys)
            if blob is not None and license_ is not None:
                self._signs = self._signer(blob, license_)
            return license_
        except LicenseFileError as error:
            log.warning("the stored license is not in force: %s", error)
            return None


def _older(license_: License, now: License | None) -> LicenseFileError:
    return LicenseFileError(
        FileRefusal.OLDER,
        f"its serial {license_.serial} is lower than {now.serial if now else 0} of the license in force, so it was "
        "issued before; upload the newer file, or go back with POST /ls?allowOlder=true",
    )


def _rows(records: Sequence[audit.Entry]) -> list[AuditRow]:
    return [AuditRow(RINGS[one["event"]], str(one.get("namespace", "")), audit.text(one)) for one in records]


def _say(records: Sequence[audit.Entry]) -> None:
    """The same records as lines on standard output, once they are on disk."""
    if records:
        audit_log.info("\n".join(map(audit.text, records)))
