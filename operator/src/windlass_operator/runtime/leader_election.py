"""Leader election of the operator: `windlass_base.kube.lease` on this process's event loop; only the holder writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from windlass_base.kube.lease import ANSWERS, Lease, LeaseCall, LeaseName, LeaseReply, LeaseTimes, Steps, boot_time
from windlass_base.kube.service_account import KubeError

from windlass_operator.cluster.rest import UNREACHABLE, Rest, StatusError, TooLargeError

OK = 200
PAUSE_MIN_S = 0.1
NO_ANSWER = (StatusError, TooLargeError, KubeError, msgspec.MsgspecError, *UNREACHABLE)
"""A refusal, an answer that is no Lease, or none: each is waited out, and ends no loop."""
logger = logging.getLogger(__name__)


@dataclass
class LeaderElection:
    """Keeps the Lease of one replica; `holds` is asked before every write."""

    rest: Rest
    name: LeaseName
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: Callable[[], float] = boot_time
    _said: str = ""

    def __post_init__(self) -> None:
        self._lease = Lease(self.name, self.times, self.clock)
        self.holds = self._lease.holds

    async def keep(self, changed: Callable[[bool], None]) -> None:
        """Take, renew, wait, for ever; tells each change of `holds` as it is noticed."""
        told = False
        while True:
            begun = self.clock()
            await self.attempt()
            if self.holds() != told:
                told = self.holds()
                changed(told)
            pause_s = self.times.renew_s if told else self.times.watch_s
            await asyncio.sleep(max(PAUSE_MIN_S, begun + pause_s - self.clock()))  # a slow answer delays no renewal

    async def release(self) -> None:
        """Let go at once, so that the stand-by need not wait; what cannot be told is waited out."""
        try:
            await self._run(self._lease.release())
        except NO_ANSWER as error:
            logger.warning("the lease %s is not released: %s", self.name.name, error)

    async def attempt(self) -> None:
        """Read the Lease, then take it, renew it or wait."""
        try:
            await self._run(self._lease.attempt())
        except NO_ANSWER as error:
            self._say(f"the lease {self.name.namespace}/{self.name.name} cannot be had: {_words(error)}")
            return
        self._say(f"leading as {self.name.me}" if self.holds() else f"stand-by: {self._lease.holder()} leads")

    async def _run(self, steps: Steps) -> None:
        """The steps with the API server's answers, within the time that a request may take."""
        async with asyncio.timeout(self.times.request_s):
            try:
                request = next(steps)
                while True:
                    request = steps.send(await self._answer(request))
            except StopIteration:
                return

    async def _answer(self, request: LeaseCall) -> LeaseReply:
        try:
            return LeaseReply(OK, _decoded(await self.rest.call(request.method, request.path, body=request.body)))
        except StatusError as error:
            if error.code not in ANSWERS:
                raise
            return LeaseReply(error.code)

    def _say(self, words: str) -> None:
        if words != self._said:
            logger.info("%s", words)
        self._said = words


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (ValueError, RecursionError) as error:  # text of no encoding, and nesting without end, are none of msgspec's
        raise KubeError(f"the API server's answer is no Lease: {error}") from error


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
