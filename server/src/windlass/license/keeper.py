"""Gets a lease before the engine starts, keeps it alive while it serves, and gives it back.

The supervisor awaits `obtain`, runs `keep` beside the engine and calls `release` at the end. Refusals are waited out
with back-off, so that a license uploaded later heals the pod; what is going on is reported as facts after every answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from windlass.errors import LicenseError
from windlass.license.client import LeaseClient
from windlass.license.model import Answer, Granted, Holder, Refused, naming
from windlass.license.settings import LicenseSettings
from windlass.license.sharing import Share, name

FAST_RETRY_MAX_S = 5.0
FAST_RETRY_FOR_S = 600.0
SLOW_RETRY_S = 30.0
RENEWALS_PER_TTL = 3
RENEW_MIN_S = 0.05
JITTER = 0.2
EXPIRED = "Expired"
UNSIGNED = "; its answers are believed without a signature (WINDLASS_LICENSE_PUBLIC_KEYS is not set)"
NO_GPU = "this container has no GPU, so it needs no license"
NOT_ASKED = "no license is asked for (WINDLASS_LICENSE_REQUIRED=false)"


@dataclass(frozen=True, slots=True)
class LicenseFacts:
    """What the pod knows of its license; shown on the facts port."""

    required: bool
    state: str  # waiting | granted | refused | unreachable | expired | notRequired
    message: str
    gpus: tuple[str, ...] = ()
    expires: str | None = None
    reason: str = ""
    """The server's word for its refusal: NoLicense, Unlicensed, Expired, LimitReached."""

    def line(self) -> str:
        """One line for the log. A renewal says nothing new."""
        until = f" until {self.expires}" if self.expires else ""
        return f"license granted{until}: {', '.join(self.gpus)}" if self.state == "granted" else self.message


Report = Callable[[LicenseFacts], None]


def retry_delay_s(attempt: int, waited_s: float) -> float:
    """Seconds until the next try: quick at first, so that an uploaded license is seen within ten seconds."""
    if waited_s > FAST_RETRY_FOR_S:
        return SLOW_RETRY_S
    return min(FAST_RETRY_MAX_S, 1.5 ** min(attempt, 10))


def facts_of(answer: Answer, before: LicenseFacts) -> LicenseFacts:
    """The facts after an answer; what is known of the expiry stays known."""
    if isinstance(answer, Granted):
        state = "expired" if answer.expired else "granted"
        return replace(before, state=state, message=answer.message, expires=answer.expires, reason="")
    message = naming(answer.message, before.gpus)
    if isinstance(answer, Refused):
        state = "expired" if answer.reason == EXPIRED else "refused"
        return replace(before, state=state, message=message, reason=answer.reason)
    return replace(before, state="unreachable", message=message, reason="")


def ends_serving(answer: Answer, last: Granted) -> bool:
    """Whether a serving pod ends at this answer, although its grace is not over.

    The license server refuses a lease that lapsed after the license's end, as when the network was away, in the same
    words as one that the license forbids. A grant after the end is the license's word that serving pods go on, until a
    later license forbids it.
    """
    if not isinstance(answer, Refused) or answer.reason != EXPIRED:
        return False
    return answer.stops_serving or not last.expired


class LicenseKeeper:
    """One pod's lease, from the first question to its release."""

    def __init__(
        self,
        client: LeaseClient,
        gpus: tuple[str, ...],
        holder: Holder,
        report: Report,
        *,
        wait_s: float | None = None,
    ) -> None:
        """Ask for these GPUs; `wait_s` is how long a refusal is waited out, None for ever."""
        self._client = client
        self._gpus = gpus
        self._holder = holder
        self._report = report
        self._wait_s = wait_s
        self._share = Share(name(holder.uid, gpus, client.addresses))
        unsigned = "" if client.signed_only else UNSIGNED
        asking = f"asking the license server for {', '.join(gpus)}{unsigned}"
        self._facts = LicenseFacts(True, "waiting", asking, gpus)
        self._granted: Granted | None = None
        self._renewed_at = 0.0
        self._serves_until = ""

    async def obtain(self) -> None:
        """Return when the license is granted; LicenseError when it was not in the time that may be waited."""
        self._report(self._facts)
        await self._share.join()
        began, attempt = _now_s(), 0
        while not isinstance(await self._ask(), Granted):
            waited_s = _now_s() - began
            if self._wait_s is not None and waited_s >= self._wait_s:
                said = f"{self._facts.message}; gave up after {waited_s:.0f} s (WINDLASS_LICENSE_WAIT)"
                raise LicenseError(said)
            delay_s = retry_delay_s(attempt, waited_s)
            left_s = delay_s if self._wait_s is None else self._wait_s - waited_s
            await asyncio.sleep(min(_jittered(delay_s), max(left_s, 0.0)))
            attempt += 1

    async def keep(self) -> None:
        """Renew for ever; LicenseError when the grace after the last renewal is over, or the license forbids it."""
        failed = 0
        while self._granted is not None:
            await asyncio.sleep(self._pause_s(self._granted, failed))
            answer = await self._ask()
            failed = 0 if isinstance(answer, Granted) else failed + 1
            if ends_serving(answer, self._granted):
                raise LicenseError(self._facts.message)
            if failed and self._grace_left_s(self._granted) <= 0:
                without_s = _now_s() - self._renewed_at
                raise LicenseError(
                    f"{naming(answer.message, self._gpus)}; the license was not renewed for {without_s:.0f} s"
                )

    async def release(self) -> None:
        """Give the GPUs back to the license server, unless another program of this pod has the same lease."""
        try:
            if self._granted is not None and self._share.is_last():
                await self._client.release(self._granted.lease)
        finally:
            self._granted = None
            self._share.leave()

    async def _ask(self) -> Answer:
        answer = await self._client.lease(self._gpus, self._holder)
        if isinstance(answer, Granted):
            self._granted, self._renewed_at = answer, _now_s()
            until = datetime.now(UTC) + timedelta(seconds=answer.ttl_s + answer.grace_s)
            self._serves_until = until.isoformat(timespec="seconds")
        self._facts = facts_of(answer, self._facts)
        if self._granted and not isinstance(answer, Granted) and not ends_serving(answer, self._granted):
            on = f"this pod serves on until {self._serves_until}"
            self._facts = replace(self._facts, message=f"{self._facts.message}; {on}")
        self._report(self._facts)
        return answer

    def _pause_s(self, granted: Granted, failed: int) -> float:
        """Until the next renewal: a third of the lease; after a failure sooner, and not beyond the grace."""
        renew_s = max(RENEW_MIN_S, granted.ttl_s / RENEWALS_PER_TTL)
        if not failed:
            return _jittered(renew_s)
        retry_s = retry_delay_s(failed, _now_s() - self._renewed_at)
        # Never none at all: a server that refuses at once must not be asked in a tight loop.
        return max(RENEW_MIN_S, min(_jittered(min(retry_s, renew_s)), self._grace_left_s(granted)))

    def _grace_left_s(self, granted: Granted) -> float:
        return self._renewed_at + granted.ttl_s + granted.grace_s - _now_s()


def keeper(
    settings: LicenseSettings, client: LeaseClient, gpus: Sequence[str], holder: Holder, report: Report
) -> LicenseKeeper | None:
    """The keeper for these GPUs; None, with the reason reported, where no license is asked for."""
    if settings.required and gpus:
        return LicenseKeeper(client, tuple(gpus), holder, report, wait_s=settings.wait_s)
    report(LicenseFacts(settings.required, "notRequired", NO_GPU if settings.required else NOT_ASKED, tuple(gpus)))
    return None


def spoken(report: Report, say: Callable[[str], None]) -> Report:
    """The same report, that also says each new state once."""
    said = ""

    def both(facts: LicenseFacts) -> None:
        nonlocal said
        report(facts)
        if facts.line() != said:
            said = facts.line()
            say(said)

    return both


def _now_s() -> float:
    """The clock on which the keeper sleeps."""
    return asyncio.get_running_loop().time()


def _jittered(seconds: float) -> float:
    # Not for secrets: it only keeps a thousand pods from asking in the same second.
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311
