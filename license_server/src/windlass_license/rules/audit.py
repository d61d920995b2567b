"""What the audit log says: one flat JSON object an event. Pure.

Renewals are a number in the record that ends the lease; `refusals` decides which refusals are recorded. A record has a
bounded length whatever it is about, and is ASCII: no byte of it steers a terminal or breaks a line.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windlass_license.errors import LicenseFileError
from windlass_license.rules.model import Lease, LeaseRequest, License, Verdict

Entry = dict[str, Any]

_TEXT_CHARACTERS, _LIST_ITEMS = 1024, 64
"""The longest text and list in a record; a lease names at most 64 devices."""

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
    return {"at": moment_text(now), "event": event, **{name: _cut(value) for name, value in facts.items()}}


def text(record: Entry) -> str:
    """A record as one line of ASCII."""
    return json.dumps(record)


def dropped(now: datetime, what: str, count: int) -> Entry:
    """A start did not take over something that was stored."""
    return entry(now, "dropped", what=what, count=count)


def uploaded(now: datetime, license_: License, older: bool = False) -> Entry:
    """A license came into force; `older` when one with a higher serial went for it."""
    back = {"older": True} if older else {}
    return entry(
        now,
        "uploaded",
        customer=license_.customer,
        appid=license_.appid,
        gpus=len(license_.gpus),
        limit=license_.limit,
        expires=license_.expires_last.isoformat(),
        serial=license_.serial,
        **back,
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


def refused(now: datetime, verdict: Verdict, request: LeaseRequest, counts: Mapping[str, int]) -> Entry:
    """A pod did not get its GPUs; `counts` says how many refusals before this one have no record."""
    facts = {"reason": verdict.reason, "message": verdict.message, "gpus": request.gpus}
    return entry(now, "refused", **facts, **_holder(request), **counts)


def _holder(of: LeaseRequest | Lease) -> dict[str, object]:
    holder = of.holder
    return {"namespace": holder.namespace, "pod": holder.pod, "uid": holder.uid, "service": holder.service}


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > _TEXT_CHARACTERS:
        return f"{value[:_TEXT_CHARACTERS]}…"
    if isinstance(value, tuple | list) and len(value) > _LIST_ITEMS:
        return [*value[:_LIST_ITEMS], f"and {len(value) - _LIST_ITEMS} more"]
    return value
