"""What is to be issued: whether the license in force is enough, and the options of the next one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

CUSTOMER, APPID, DAYS, LIMIT = "self-issued", "1", 365, 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What a license file says."""

    file: Path
    customer: str
    appid: str
    limit: int
    expires: datetime
    uuids: frozenset[str] = frozenset()
    """Known of files that were inspected."""
    key_id: str = ""

    def to_dict(self, gpus: int) -> dict[str, Any]:
        """For programs."""
        return {
            "file": str(self.file),
            "customer": self.customer,
            "appid": self.appid,
            "gpus": gpus,
            "limit": self.limit,
            "expires": self.expires.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class RequestedTerms:
    """Terms that the user names; None is one that he does not name."""

    customer: str | None = None
    appid: str | None = None
    days: int | None = None
    limit: int | None = None

    def changes(self, now: Facts) -> bool:
        """Whether these are other terms than those of the license in force."""
        rows = ((self.customer, now.customer), (self.appid, now.appid), (self.limit, now.limit))
        return self.days is not None or any(wanted is not None and wanted != has for wanted, has in rows)


def words(asked: RequestedTerms, now: datetime, *, follows: bool) -> list[str]:
    """Options of `windlass-license issue`; what follows a license leaves its terms as they are, unless one is named."""
    defaults = RequestedTerms() if follows else RequestedTerms(CUSTOMER, APPID, DAYS, LIMIT)
    days = asked.days if asked.days is not None else defaults.days
    limit = asked.limit if asked.limit is not None else defaults.limit
    rows: Sequence[tuple[str, Any]] = (
        ("--customer", asked.customer if asked.customer is not None else defaults.customer),
        ("--appid", asked.appid if asked.appid is not None else defaults.appid),
        ("--expires", None if days is None else (now + timedelta(days=days)).isoformat(timespec="seconds")),
        ("--max-concurrent", limit),
    )
    return [word for name, value in rows if value is not None for word in (name, str(value))]


def span(expires: datetime, now: datetime) -> str:
    """`until …, in 364 days`, or that it is over."""
    when = expires.isoformat(timespec="seconds")
    days = (expires - now).days
    if expires <= now:
        return f"expired at {when}"
    return f"until {when}, in {days} day{'' if days == 1 else 's'}" if days else f"until {when}, within a day"
