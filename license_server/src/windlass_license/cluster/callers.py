"""Tells `POST` and `DELETE /v1/leases` which pod asks: by its token, which the API server reviews.

An answer of the API server is remembered by the token's hash. A remembered pod never waits for the API server: its
token is reviewed again beside the request, and counts on for a while when the API server is away. What others send
cannot use up the reviews: few at a time, few waiting, few failures of one address.

Reviews and refusals age by the monotonic clock, so that a date which is set makes nothing older or younger. Only the
end of a token is a date.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import quote

from windlass_base.kube.service_account import KubeApi, KubeError

from windlass_license.cluster.identity import (
    Caller,
    check_plausible,
    gpus_requested,
    pod_uid,
    review_request,
    reviewed,
)
from windlass_license.errors import ReviewError, UnknownCallerError

FRESH_S = 300.0
"""A token is reviewed again after this: a deleted pod's token counts no longer than that."""
USABLE_S = 1800.0
"""… unless the API server is away: then a reviewed token counts so long, and never after it expires."""
REFUSED_S = 10.0
"""A refused token is not reviewed again so soon."""
REVIEWS_AT_ONCE, REVIEWS_WAITING = 4, 64
FAILURES, FAILURES_S = 10, 60.0
"""Refused tokens of one address, and in what time; more are refused without a review."""
_REMEMBERED, _PEERS_REMEMBERED = 20_000, 4096
Key = TypeVar("Key")
Value = TypeVar("Value")
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@dataclass(slots=True)
class _Known:
    caller: Caller
    fresh_until_s: float
    usable_until_s: float
    """As `fresh_until_s`, by the monotonic clock: counted from the last review."""
    expires_s: float
    """The token's own end, by the wall clock; no review moves it."""


class Callers:
    """The pods behind tokens; used from one event loop."""

    def __init__(
        self,
        api: KubeApi,
        pod_gpus: bool = True,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._pod_gpus, self._wall, self._monotonic = api, pod_gpus, wall, monotonic
        self._threads = ThreadPoolExecutor(REVIEWS_AT_ONCE, thread_name_prefix="reviews")
        self._known: dict[bytes, _Known] = {}
        self._refused: dict[bytes, tuple[str, float]] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._under_way: dict[bytes, asyncio.Task[Caller]] = {}

    async def identify(self, authorization: str, peer: str) -> Caller:
        """The pod; UnknownCallerError, or ReviewError when it cannot be said now."""
        scheme, _, token = authorization.partition(" ")
        key, now_s = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest(), self._monotonic()
        if (known := self._known.get(key)) is not None and self._counts(known):
            if now_s >= known.fresh_until_s and len(self._under_way) < REVIEWS_WAITING:
                self._begin(key, token, known.expires_s)
            return known.caller
        if scheme.lower() != "bearer":
            token = ""
        self._check_refused(key, peer, now_s)
        try:
            expires_s = check_plausible(token, self._wall())
            return await asyncio.shield(self._begin(key, token, expires_s))
        except UnknownCallerError as error:
            self._fail(key, peer, str(error))
            raise

    def _counts(self, known: _Known) -> bool:
        return self._monotonic() < known.usable_until_s and self._wall() < known.expires_s

    def close(self) -> None:
        """Let the reviews under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self, key: bytes, token: str, expires_s: float) -> asyncio.Task[Caller]:
        """The review of this token, which may be under way already."""
        if (task := self._under_way.get(key)) is None:
            if len(self._under_way) >= REVIEWS_WAITING:
                raise ReviewError("the license server has too many tokens to check; ask again")
            task = self._under_way[key] = asyncio.create_task(self._review(key, token, expires_s))
            task.add_done_callback(lambda done: self._end(key, done))
        return task

    async def _review(self, key: bytes, token: str, expires_s: float) -> Caller:
        caller = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, token)
        now_s = self._monotonic()
        if key not in self._known and len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = _Known(caller, now_s + FRESH_S, now_s + USABLE_S, expires_s)
        return caller

    def _end(self, key: bytes, done: asyncio.Task[Caller]) -> None:
        del self._under_way[key]
        if not done.cancelled() and isinstance(done.exception(), UnknownCallerError):
            self._known.pop(key, None)

    def _ask(self, token: str) -> Caller:
        """Two questions to the API server, on a thread."""
        try:
            _, review = self._api.call("POST", _REVIEWS, review_request(token))
            caller = reviewed(review)
            if not self._pod_gpus:
                return caller
            where = f"/api/v1/namespaces/{quote(caller.namespace, safe='')}/pods/{quote(caller.pod, safe='')}"
            status, pod = self._api.call("GET", where)
        except KubeError as error:
            raise ReviewError(f"the license server cannot check the pod's token: {error}; ask again") from error
        if status == 404 or pod_uid(pod) != caller.uid:
            raise UnknownCallerError(f"the pod {caller.namespace}/{caller.pod} of the token is gone")
        return replace(caller, gpus=gpus_requested(pod))

    def _check_refused(self, key: bytes, peer: str, now_s: float) -> None:
        sentence, until_s = self._refused.get(key, ("", float("-inf")))
        if now_s < until_s:
            raise UnknownCallerError(sentence)
        count, since_s = self._failures.get(peer, (0, now_s))
        if count >= FAILURES and now_s - since_s < FAILURES_S:
            raise UnknownCallerError(f"too many tokens of this address were refused; wait {FAILURES_S:.0f} seconds")

    def _fail(self, key: bytes, peer: str, sentence: str) -> None:
        now_s = self._monotonic()
        _bounded(self._refused, _PEERS_REMEMBERED)
        self._refused[key] = (sentence, now_s + REFUSED_S)
        count, since_s = self._failures.get(peer, (0, now_s))
        if now_s - since_s >= FAILURES_S:
            count, since_s = 0, now_s
        _bounded(self._failures, _PEERS_REMEMBERED)
        self._failures[peer] = (count + 1, since_s)


def _bounded(table: dict[Key, Value], most: int) -> None:
    if len(table) >= most:
        del table[next(iter(table))]
