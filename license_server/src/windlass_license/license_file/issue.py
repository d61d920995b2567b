"""Make a license out of a listing and the terms of a sale. Pure: the time and the key are given.

Called by `windlass-license issue`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from windlass_license.errors import TermsError
from windlass_license.license_file.listing import ListedGpu
from windlass_license.rules.model import DEFAULT_GRACE_S, GRACE_MAX_S, License, LicensedGpu


@dataclass(frozen=True, slots=True)
class Terms:
    """What was agreed with the customer."""

    customer: str
    appid: str
    expires: datetime
    limit: int = 0
    grace_s: int = DEFAULT_GRACE_S
    renew_after_expiry: bool = True
    serial: int | None = None
    """None is the time of issue in seconds."""
    answer_key: str = ""
    """The license server's public answer key, as base64 of its raw bytes."""


NEEDED = {"customer": "--customer", "appid": "--appid", "expires": "--expires"}


def terms_of(said: Mapping[str, Any], old: License | None) -> Terms:
    """The terms that are said, by the names of `Terms`; what is not said is as in the license to follow, if any."""
    if old is not None:
        return replace(_terms_in(old), **said)
    if missing := [option for name, option in NEEDED.items() if name not in said]:
        raise TermsError(f"{', '.join(missing)} must be given, or --from with a license whose terms go on")
    return Terms(**said)


def listed_in(old: License) -> tuple[ListedGpu, ...]:
    """The GPUs of a license, as a listing."""
    return tuple(ListedGpu(gpu.uuid, gpu.brand, gpu.slices) for gpu in old.gpus)


def _terms_in(old: License) -> Terms:
    """The serial is left out: each license has a new one."""
    return Terms(
        customer=old.customer,
        appid=old.appid,
        expires=old.expires_last,
        limit=old.limit,
        grace_s=old.grace_s,
        renew_after_expiry=old.renew_after_expiry,
        answer_key=old.answer_key,
    )


def issue(gpus: tuple[ListedGpu, ...], terms: Terms, now: datetime) -> License:
    """The license for these GPUs; terms that could never be used are refused."""
    if terms.expires <= now:
        raise TermsError(f"--expires {terms.expires.isoformat()} is not after now; give a time to come")
    if not terms.customer.strip() or not terms.appid.strip():
        raise TermsError("--customer and --appid must not be empty")
    if terms.limit < 0 or terms.grace_s < 0:
        raise TermsError("--max-concurrent and --grace-seconds must be 0 or more; 0 concurrent GPUs means no limit")
    if terms.grace_s > GRACE_MAX_S:
        raise TermsError(f"--grace-seconds {terms.grace_s} is longer than ten years; give {GRACE_MAX_S} or less")
    if terms.serial is not None and terms.serial < 1:
        raise TermsError("--serial must be 1 or more; leave it out for the time of issue")
    issued = now.astimezone(terms.expires.tzinfo)
    return License(
        appid=terms.appid,
        customer=terms.customer,
        limit=terms.limit,
        gpus=tuple(LicensedGpu(gpu.uuid, gpu.brand, issued, terms.expires, gpu.slices) for gpu in gpus),
        grace_s=terms.grace_s,
        renew_after_expiry=terms.renew_after_expiry,
        serial=int(now.timestamp()) if terms.serial is None else terms.serial,
        answer_key=terms.answer_key,
    )


def parse_expiry(text: str) -> datetime:
    """An ISO 8601 time with its zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise TermsError(f'--expires "{text}" is not an ISO 8601 time; write e.g. 2027-09-06T00:00:00+08:00') from error
    if moment.tzinfo is None:
        raise TermsError(f'--expires "{text}" has no zone; write e.g. 2027-09-06T00:00:00+08:00 or …Z')
    return moment


def file_name(license_: License) -> str:
    """The usual name of a license file: appid, customer and time of issue."""
    issued = license_.gpus[0].issued.strftime("%Y%m%d%H%M%S")
    return f"license-windlass_{_slug(license_.appid)}-{_slug(license_.customer)}-{issued}.dat"


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "customer"
