"""Speaks HTTP with license servers: asks for a lease, gives it back. Says what was answered; decides nothing."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from windlass.errors import UsageError
from windlass.license.answers import Question, UntrustedAnswerError, issuers
from windlass.license.model import Answer, Granted, Holder, Refused, Unreachable
from windlass.license.settings import CA, TIMEOUT_S, TOKEN_FILE, LicenseSettings

CONNECT_TIMEOUT_S = 5.0
RELEASE_TIMEOUT_S = 3.0
OK, FORBIDDEN = 200, 403
NO_LICENSE = "NoLicense"
SAID_CHARACTERS = 2000
"""Of a server's sentence; whatever answers may be no license server."""


class LeaseClient:
    """One pod's connection to the first license server that answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        total_timeout_s: float = TIMEOUT_S,
        ca: str = "",
        token_file: str = "",
        public_keys: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask these addresses in order; all of them together take at most the total time-out."""
        timeout = httpx.Timeout(total_timeout_s, connect=min(CONNECT_TIMEOUT_S, total_timeout_s))
        # Proxies of the environment are for the outside world; the license server is in the cluster.
        self._http = httpx.AsyncClient(timeout=timeout, transport=transport, trust_env=False, verify=trust(ca))
        self._addresses = list(addresses)
        self._token_file = token_file
        self._issuers = issuers(public_keys)
        self._total_timeout_s = total_timeout_s

    @classmethod
    def of(cls, settings: LicenseSettings) -> Self:
        """A client as the environment wants it."""
        return cls(
            settings.addresses,
            total_timeout_s=settings.timeout_s,
            ca=settings.ca,
            token_file=settings.token_file,
            public_keys=settings.public_keys,
        )

    @property
    def signed_only(self) -> bool:
        """Whether an answer without the signature of a certified server is refused."""
        return bool(self._issuers.keys)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def lease(self, gpus: Sequence[str], holder: Holder) -> Answer:
        """Ask for a lease on all of these GPUs, or renew it: the server knows the pod by its uid."""
        question = Question(secrets.token_hex(16), tuple(gpus), holder.uid if self._token_file else "")
        body = {"gpus": list(gpus), "holder": holder.to_dict(), "nonce": question.nonce}
        failures = []
        clock = asyncio.get_running_loop().time
        ends, addresses = clock() + self._total_timeout_s, tuple(self._addresses)
        for number, address in enumerate(addresses):
            share_s = (ends - clock()) / (len(addresses) - number)  # what one left over is for the ones after it
            answer = await self._ask(address, question, body, share_s)
            if not isinstance(answer, Unreachable):
                self._prefer(address)
                return answer
            failures.append(answer.message)
        asked = "; ".join(failures)
        return Unreachable(f"no license server answers ({asked}); install one, or give its address (WINDLASS_LS_ADDR)")

    async def release(self, lease: str) -> None:
        """Give the GPUs back; a server that is gone lets the lease run out by itself."""
        try:
            where, shown = f"{self._addresses[0]}/v1/leases/{lease}", bearer(self._token_file)
            await self._http.delete(where, headers=shown, timeout=RELEASE_TIMEOUT_S)
        except (httpx.HTTPError, OSError, ValueError):
            return

    async def _ask(self, address: str, question: Question, body: dict[str, Any], timeout_s: float) -> Answer:
        try:
            shown = bearer(self._token_file)
        except (OSError, ValueError) as error:
            return Unreachable(f"the pod's token cannot be read ({TOKEN_FILE}): {error}")
        try:
            async with asyncio.timeout(timeout_s):  # httpx bounds each step, not the whole
                response = await self._http.post(f"{address}/v1/leases", json=body, headers=shown)
            return self._believed(address, question, response)
        except (httpx.HTTPError, TimeoutError) as error:
            return Unreachable(f"{address}: {_why(error)}")

    def _believed(self, address: str, question: Question, response: httpx.Response) -> Answer:
        """The answer; Unreachable when the issuer's keys are known and it is not signed for this question.

        Without a license nothing can be certified, so that one refusal is believed: it gives nothing away.
        """
        answer = _read(address, response)
        plain = isinstance(answer, Unreachable) or (isinstance(answer, Refused) and answer.reason == NO_LICENSE)
        if not self._issuers.keys or plain:
            return answer
        try:
            self._issuers.check(question, response.status_code, response.headers, response.content)
        except UntrustedAnswerError as error:
            return Unreachable(f"{address} is not believed: {error}")
        return answer

    def _prefer(self, address: str) -> None:
        self._addresses.remove(address)
        self._addresses.insert(0, address)


def bearer(token_file: str) -> dict[str, str]:
    """The header that shows this pod's token; the file is read each time, since the kubelet renews it."""
    return {"Authorization": f"Bearer {Path(token_file).read_text(encoding='ascii').strip()}"} if token_file else {}


def trust(ca: str) -> ssl.SSLContext | bool:
    """Whom to believe: the given authority alone, else the usual ones."""
    if not ca:
        return True
    try:
        if "-----BEGIN" in ca:
            return ssl.create_default_context(cadata=ca)
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # ssl.SSLError is one, too
        raise UsageError(
            f"variable {CA} holds no certificate that can be read: {error}; give PEM or its file"
        ) from error


def _read(address: str, response: httpx.Response) -> Answer:
    content = _object(response)
    try:
        if response.status_code == OK:
            return _granted(content)
        if response.status_code == FORBIDDEN:
            return Refused(plain(content["reason"]), plain(content["message"]))
    except (KeyError, TypeError, ValueError):
        return Unreachable(f"{address} answered {response.status_code}, but not as a license server does")
    said = plain(content.get("message") or response.text[:200].strip() or "nothing")
    return Unreachable(f"{address} answered {response.status_code}: {said}")


def _granted(content: dict[str, Any]) -> Granted:
    return Granted(
        lease=quote(str(content["lease"]), safe=""),
        ttl_s=float(content["ttlSeconds"]),
        grace_s=float(content.get("graceSeconds") or 0),
        expires=plain(content["expires"]) if content.get("expires") else None,
        expired=bool(content.get("expired")),
        message=plain(content.get("message") or ""),
    )


def plain(said: object) -> str:
    """A server's text as it may stand in a log line and a status: bounded, and without what steers a terminal."""
    text = str(said)[:SAID_CHARACTERS]
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        content = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _why(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
