"""Which refusals become audit records of their own: bounded in number a second and in memory, whatever is asked. Pure.

A waiting pod asks every few seconds, for days if it must. Its refusal is recorded when it is new or has another reason,
then once in ten minutes with the number of times between. Called by `service`.
"""

import hashlib
from datetime import datetime, timedelta

from windlass_license.rules.model import LeaseRequest, Refusal, Verdict

QUIET = timedelta(minutes=10)
_REMEMBERED = 20_000
"""Questions whose refusal is remembered, about 300 bytes each: 6 MiB."""
RECORDS_PER_S = 20.0
"""Refusals that are recorded a second; more are only counted."""
RECORDS_AT_ONCE = 200.0
"""Refusals that are recorded at once after a quiet time: as many pods as start together."""


class Refusals:
    """Remembers questions by a hash; the longest-known are forgotten first."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Refusal | None, datetime, int]] = {}
        self._left = RECORDS_AT_ONCE
        self._filled: datetime | None = None
        self._omitted = 0

    def to_record(self, verdict: Verdict, request: LeaseRequest, now: datetime) -> dict[str, int] | None:
        """The counts to put into the record of this refusal; None when it is to be counted only."""
        key = _key(request)
        reason, since, count = self._known.get(key, (None, now, 0))
        if reason is verdict.reason and now - since < QUIET:
            self._known[key] = (reason, since, count + 1)
            return None
        if not self._affordable(now):
            self._omitted += 1
            return None
        self._known.pop(key, None)
        self._known[key] = (verdict.reason, now, 0)
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        omitted, self._omitted = self._omitted, 0
        return {name: number for name, number in (("repeats", count), ("omitted", omitted)) if number}

    def forget(self, request: LeaseRequest) -> None:
        """The pod got what it waited for."""
        self._known.pop(_key(request), None)

    def _affordable(self, now: datetime) -> bool:
        passed_s = 0.0 if self._filled is None else max(0.0, (now - self._filled).total_seconds())
        self._left, self._filled = min(RECORDS_AT_ONCE, self._left + passed_s * RECORDS_PER_S), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _key(request: LeaseRequest) -> bytes:
    words = "\0".join((request.holder.uid, *request.gpus))
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).digest()
