"""What the audit log says: one flat JSON object an event. Pure.

A waiting pod asks every few seconds, for days if it must. Its refusal is recorded when it is new or has another reason,
then once in ten minutes with the number of times between, so that one impatient pod cannot push the grants out of the
log. Renewals are a number in the record that ends the lease.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from windlass_license.errors import LicenseFileError
from windlass_license.model import Lease, LeaseRequest, License, Refusal, Verdict

Entry = dict[str, Any]

QUIET = timedelta(minutes=10)
_REMEMBERED = 20_000

FILTERS: Mapping[str, str] = {
    "event": "record ->> '$.event' = ?",
    "namespace": "record ->> '$.namespace' = ?",
    "pod": "record ->> '$.pod' = ?",
    "uid": "record ->> '$.uid' = ?",
    "lease": "record ->> '$.lease' = ?",
    "gpu": "EXISTS (SELECT 1 FROM json_each(record, '$.gpus') WHERE value = ?)",
    "since": "record ->> '$.at' >= ?",
    "until": "record ->> '$.at' < ?",
}
"""What `GET /ls/audit` may be asked for, as SQL conditions on a record; times are compared as the texts they are."""


def moment_text(moment: datetime) -> str:
    """A time as the records hold it: of one length, so that text order is time order."""
    return moment.isoformat(timespec="milliseconds")


def entry(now: datetime, event: str, **facts: object) -> Entry:
    """One record."""
    return {"at": moment_text(now), "event": event, **facts}


def text(record: Entry) -> str:
    """A record as one line."""
    return json.dumps(record, ensure_ascii=False)


def uploaded(now: datetime, license_: License) -> Entry:
    """A license came into force."""
    return entry(
        now,
        "uploaded",
        customer=license_.customer,
        appid=license_.appid,
        gpus=len(license_.gpus),
        limit=license_.limit,
        expires=license_.expires_last.isoformat(),
    )


def upload_refused(now: datetime, error: LicenseFileError) -> Entry:
    """A file was sent and changed nothing."""
    return entry(now, "uploadRefused", reason=error.reason, message=str(error))


def lease_ended(now: datetime, event: str, lease: Lease) -> Entry:
    """A lease was released or lapsed."""
    return entry(now, event, lease=lease.id, gpus=lease.gpus, **_holder(lease), renewals=lease.renewals)


def granted(now: datetime, lease: Lease) -> Entry:
    """A pod got its GPUs."""
    return entry(now, "granted", lease=lease.id, gpus=lease.gpus, **_holder(lease))


def refused(now: datetime, verdict: Verdict, request: LeaseRequest, repeats: int) -> Entry:
    """A pod did not get its GPUs; `repeats` times it was told so since the last such record."""
    again = {"repeats": repeats} if repeats else {}
    facts = {"reason": verdict.reason, "message": verdict.message, "gpus": request.gpus}
    return entry(now, "refused", **facts, **_holder(request), **again)


def _holder(of: LeaseRequest | Lease) -> dict[str, object]:
    holder = of.holder
    return {"namespace": holder.namespace, "pod": holder.pod, "uid": holder.uid, "service": holder.service}


class Repeats:
    """Which refusals were recorded a short while ago; bounded, the longest-known are forgotten first."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], tuple[Refusal | None, datetime, int]] = {}

    def to_record(self, verdict: Verdict, request: LeaseRequest, now: datetime) -> int | None:
        """How many refusals went unrecorded before this one; None when this one is to be counted only."""
        key = (request.holder.uid, request.gpus)
        reason, since, count = self._known.get(key, (None, now, 0))
        if reason is verdict.reason and now - since < QUIET:
            self._known[key] = (reason, since, count + 1)
            return None
        self._known.pop(key, None)
        self._known[key] = (verdict.reason, now, 0)
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return count

    def forget(self, request: LeaseRequest) -> None:
        """The pod got what it waited for."""
        self._known.pop((request.holder.uid, request.gpus), None)
