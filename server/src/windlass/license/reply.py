"""What an answer at a license server's address says, whoever gave it. Pure; every text and number is bounded.

Where no signature is asked for, or for the one refusal that carries none, these bytes may be anybody's: whatever is
not as a license server writes it is no answer, and a pod goes on as if there had been none.
"""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import quote

from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass.license.model import Answer, Granted, Refused, Unreachable

OK, FORBIDDEN = 200, 403
REPLY_BYTES_MAX = 256 * 1024
"""Of an answer's body: 64 GPUs and a sentence take a few KiB."""
TEXT_CHARACTERS = 2000
SHOWN_BYTES = 200
"""Of a body that is not a license server's."""
LEASE_CHARACTERS = 256
TTL_S_MAX = 366 * 86400.0
GRACE_S_MAX = 100 * TTL_S_MAX
"""A license may name any grace; what is longer is this long, so that no date lies beyond the calendar."""


def read(address: str, status: int, body: bytes) -> Answer:
    """The answer; Unreachable, with one sentence, for all that is neither a grant nor a refusal."""
    content = _object(body)
    try:
        if status == OK:
            return _granted(content)
        if status == FORBIDDEN:
            stops_serving = content.get("stopsServing") is True
            return Refused(plain(content["reason"]), plain(content["message"]), stops_serving)
    except (KeyError, ValueError):
        return Unreachable(f"{address} answered {status}, but not as a license server does")
    shown = body[:SHOWN_BYTES].decode("utf-8", "replace").strip()
    return Unreachable(f"{address} answered {status}: {plain(content.get('message') or shown or 'nothing')}")


def plain(text: object) -> str:
    """A server's text as it may stand in a log line and a status: bounded, and without what steers a terminal."""
    shown = str(text)[:TEXT_CHARACTERS]
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in shown)


def _granted(content: dict[str, Any]) -> Granted:
    ttl_s = _seconds(content["ttlSeconds"])
    if not 0 < ttl_s <= TTL_S_MAX:
        raise ValueError("no time of a lease")
    return Granted(
        lease=_lease(content["lease"]),
        ttl_s=ttl_s,
        grace_s=_seconds(content.get("graceSeconds") or 0),
        expires=plain(content["expires"]) if content.get("expires") else None,
        expired=content.get("expired") is True,
        message=plain(content.get("message") or ""),
    )


def _seconds(number: object) -> float:
    """A time in seconds, at most `GRACE_S_MAX`; ValueError for what is no number, has no end or lies before now."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
        raise ValueError("no time in seconds")
    return float(min(number, GRACE_S_MAX))


def _lease(name: object) -> str:
    """The lease's id as a part of a URL."""
    if not isinstance(name, str) or not 0 < len(name) <= LEASE_CHARACTERS:
        raise ValueError("no id of a lease")
    return quote(name, safe="")


def _object(body: bytes) -> dict[str, Any]:
    try:
        content = json_of(body)
    except UnusableJsonError:
        return {}
    return content if isinstance(content, dict) else {}
