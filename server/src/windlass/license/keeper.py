"""Gets a lease before the engine starts, keeps it alive while it serves, and gives it back.

The supervisor awaits `obtain`, runs `keep` beside the engine and calls `release` at the end. Refusals are waited out
with back-off, so that a license uploaded later heals the pod; what is going on is reported as facts after every answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass.errors import LicenseError
from windlass.license.client import LeaseClient
from windlass.license.model import Answer, Granted, Holder, Refused

FAST_RETRY_MAX_S = 5.0
FAST_RETRY_FOR_S = 600.0
SLOW_RETRY_S = 30.0
RENEWALS_PER_TTL = 3
RENEW_MIN_S = 0.05
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class LicenseFacts:
    """What the pod knows of its license; shown on the facts port."""

    required: bool
    state: str  # waiting | granted | refused | unreachable | expired | notRequired
    message: str
    gpus: tuple[str, ...] = ()
    expires: str | None = None


def retry_delay_s(attempt: int, waited_s: float) -> float:
    """Seconds until the next try: quick at first, so that an uploaded license is seen within ten seconds."""
    if waited_s > FAST_RETRY_FOR_S:
        return SLOW_RETRY_S
    return min(FAST_RETRY_MAX_S, 1.5 ** min(attempt, 10))


def facts_of(answer: Answer, before: LicenseFacts) -> LicenseFacts:
    """The facts after an answer; what is known of the expiry stays known."""
    if isinstance(answer, Granted):
        state = "expired" if answer.expired else "granted"
        return replace(before, state=state, message=answer.message, expires=answer.expires)
    state = "refused" if isinstance(answer, Refused) else "unreachable"
    if isinstance(answer, Refused) and answer.reason == "Expired":
        state = "expired"
    return replace(before, state=state, message=answer.message)


class LicenseKeeper:
    """One pod's lease, from the first question to its release."""

    def __init__(
        self,
        client: LeaseClient,
        gpus: tuple[str, ...],
        holder: Holder,
        report: Callable[[LicenseFacts], None],
        *,
        wait_s: float | None = None,
    ) -> None:
        """Ask for these GPUs; `wait_s` is how long a refusal is waited out, None for ever."""
        self._client = client
        self._gpus = gpus
        self._holder = holder
        self._report = report
        self._wait_s = wait_s
        self._facts = LicenseFacts(True, "waiting", "asking the license server", gpus)
        self._granted: Granted | None = None
        self._renewed_at = 0.0

    async def obtain(self) -> None:
        """Return when the license is granted; LicenseError when it was not in the time that may be waited."""
        self._report(self._facts)
        began, attempt = time.monotonic(), 0
        while not isinstance(answer := await self._ask(), Granted):
            waited_s = time.monotonic() - began
            if self._wait_s is not None and waited_s >= self._wait_s:
                raise LicenseError(f"{answer.message}; gave up after {waited_s:.0f} s (WINDLASS_LICENSE_WAIT)")
            delay_s = retry_delay_s(attempt, waited_s)
            left_s = delay_s if self._wait_s is None else self._wait_s - waited_s
            await asyncio.sleep(min(_jittered(delay_s), max(left_s, 0.0)))
            attempt += 1

    async def keep(self) -> None:
        """Renew for ever; LicenseError when the grace after the last renewal has passed."""
        while self._granted is not None:
            await asyncio.sleep(_jittered(self._renew_every_s(self._granted)))
            answer = await self._ask()
            if isinstance(answer, Granted):
                continue
            without_s, grace_s = time.monotonic() - self._renewed_at, self._granted.ttl_s + self._granted.grace_s
            if without_s > grace_s:
                raise LicenseError(f"{answer.message}; the license was not renewed for {without_s:.0f} s")

    async def release(self) -> None:
        """Give the GPUs back to the license server."""
        if self._granted is not None:
            await self._client.release(self._granted.lease)
            self._granted = None

    async def _ask(self) -> Answer:
        answer = await self._client.lease(self._gpus, self._holder)
        if isinstance(answer, Granted):
            self._granted, self._renewed_at = answer, time.monotonic()
        self._facts = facts_of(answer, self._facts)
        self._report(self._facts)
        return answer

    def _renew_every_s(self, granted: Granted) -> float:
        return max(RENEW_MIN_S, granted.ttl_s / RENEWALS_PER_TTL)


def _jittered(seconds: float) -> float:
    # Not for secrets: it only keeps a thousand pods from asking in the same second.
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
