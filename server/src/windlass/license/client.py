"""Speaks HTTP with license servers: asks for a lease, gives it back. Says what was answered; decides nothing."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Sequence
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from windlass.errors import UsageError
from windlass.license.answers import Question, UntrustedAnswerError, issuers
from windlass.license.model import Answer, Granted, Holder, Refused, Unreachable
from windlass.license.reply import FORBIDDEN, OK, REPLY_BYTES_MAX, plain, read
from windlass.license.settings import CA, TIMEOUT_S, TOKEN_FILE, LicenseSettings

CONNECT_TIMEOUT_S = 5.0
RELEASE_TIMEOUT_S = 3.0
NO_LICENSE = "NoLicense"
NO_COOKIES = DefaultCookiePolicy(allowed_domains=())
PLAIN_BYTES = {"Accept-Encoding": "identity"}
"""A packed answer of a few bytes could unpack to any size, and no license server packs its own."""


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
        # Cookies are not kept: in a pod that asks for months a stranger's would pile up.
        self._http = httpx.AsyncClient(
            timeout=timeout, transport=transport, trust_env=False, verify=trust(ca), cookies=CookieJar(NO_COOKIES)
        )
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

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of the license servers, in the order in which they are asked next."""
        return tuple(self._addresses)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def lease(self, gpus: Sequence[str], holder: Holder) -> Answer:
        """Ask for a lease on all of these GPUs, or renew it: the server knows the pod by its uid.

        Of several addresses the first that grants or refuses counts, and one that grants is asked first from then on.
        NoLicense counts only where no other address says more: it needs no signature, so anybody can say it.
        """
        question = Question(secrets.token_hex(16), tuple(gpus), holder.uid if self._token_file else "")
        body = {"gpus": list(gpus), "holder": holder.to_dict(), "nonce": question.nonce}
        failures: list[str] = []
        without: Refused | None = None
        clock = asyncio.get_running_loop().time
        ends, addresses = clock() + self._total_timeout_s, tuple(self._addresses)
        for number, address in enumerate(addresses):
            share_s = (ends - clock()) / (len(addresses) - number)  # what one left over is for the ones after it
            answer = await self._ask(address, question, body, share_s)
            if isinstance(answer, Granted):
                self._prefer(address)
                return answer
            if isinstance(answer, Unreachable):
                failures.append(answer.message)
            elif answer.reason != NO_LICENSE:
                return answer
            else:
                without = without or answer
        if without:
            return without
        asked = "; ".join(failures)
        return Unreachable(f"no license server answers ({asked}); install one, or give its address (WINDLASS_LS_ADDR)")

    async def release(self, lease: str) -> None:
        """Give the GPUs back; a server that is gone lets the lease run out by itself."""
        try:
            where, shown = f"{self._addresses[0]}/v1/leases/{lease}", bearer(self._token_file)
            async with (
                asyncio.timeout(RELEASE_TIMEOUT_S),
                self._http.stream("DELETE", where, headers=shown | PLAIN_BYTES),
            ):
                return  # its status says all, and nothing would come of that
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
            return

    async def _ask(self, address: str, question: Question, body: dict[str, Any], timeout_s: float) -> Answer:
        try:
            shown = bearer(self._token_file)
        except (OSError, ValueError) as error:
            return Unreachable(f"the pod's token cannot be read ({TOKEN_FILE}): {plain(error)}")
        try:
            async with asyncio.timeout(timeout_s):  # httpx bounds each step, not the whole
                return await self._exchange(address, question, body, shown)
        except (httpx.HTTPError, TimeoutError) as error:
            return Unreachable(f"{address}: {_why(error)}")
        except Exception as error:
            # What stands at an address may be anybody's, and its bytes go through parsers that are not ours: headers,
            # cookies, host names of redirects. None of their faults may end a pod that serves.
            return Unreachable(f"{address}: its answer cannot be read ({type(error).__name__}: {plain(error)})")

    async def _exchange(self, address: str, question: Question, body: dict[str, Any], shown: dict[str, str]) -> Answer:
        where, headers = f"{address}/v1/leases", shown | PLAIN_BYTES
        async with self._http.stream("POST", where, json=body, headers=headers) as response:
            status = response.status_code
            if response.headers.get("content-encoding", "identity") != "identity":
                return Unreachable(f"{address} answered {status} with packed bytes, which no license server does")
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > REPLY_BYTES_MAX:
                    more = f"more than {REPLY_BYTES_MAX // 1024} KiB"
                    return Unreachable(f"{address} answered {status} with {more}, which no license server does")
            return self._believed(address, question, response, bytes(content))

    def _believed(self, address: str, question: Question, response: httpx.Response, body: bytes) -> Answer:
        """The answer; Unreachable when the issuer's keys are known and it is not signed for this question.

        Without a license nothing can be certified, so that one refusal is believed: it gives nothing away.
        """
        status = response.status_code
        if not self._issuers.keys or status not in (OK, FORBIDDEN):
            return read(address, status, body)
        try:
            self._issuers.check(question, status, response.headers, body)
        except UntrustedAnswerError as error:
            answer = read(address, status, body)
            harmless = isinstance(answer, Unreachable) or (isinstance(answer, Refused) and answer.reason == NO_LICENSE)
            return answer if harmless else Unreachable(f"{address} is not believed: {error}")
        return read(address, status, body)

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
            # Python takes ASCII alone here. A comment beside a certificate may lose its letters; inside it is broken.
            return ssl.create_default_context(cadata=ca.encode("ascii", "replace").decode())
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError; a file's name may be none
        raise UsageError(
            f"variable {CA} holds no certificate that can be read: {error}; give PEM or its file"
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "no answer in time"
    return plain(error) or type(error).__name__
