"""Speaks HTTP with license servers: asks for a lease, gives it back. Says what was answered; decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from windlass.license.model import Answer, Granted, Holder, Refused, Unreachable

TOTAL_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
RELEASE_TIMEOUT_S = 3.0
OK, FORBIDDEN = 200, 403


class LeaseClient:
    """One pod's connection to the first license server that answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        total_timeout_s: float = TOTAL_TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Ask these addresses in order; all of them together take at most the total time-out."""
        share_s = total_timeout_s / len(addresses)
        timeout = httpx.Timeout(share_s, connect=min(CONNECT_TIMEOUT_S, share_s))
        # Proxies of the environment are for the outside world; the license server is in the cluster.
        self._http = httpx.AsyncClient(timeout=timeout, transport=transport, trust_env=False)
        self._addresses = list(addresses)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def lease(self, gpus: Sequence[str], holder: Holder) -> Answer:
        """Ask for a lease on all of these GPUs, or renew it: the server knows the pod by its uid."""
        body = {"gpus": list(gpus), "holder": holder.to_dict()}
        failures = []
        for address in tuple(self._addresses):
            try:
                response = await self._http.post(f"{address}/v1/leases", json=body)
            except httpx.HTTPError as error:
                failures.append(f"{address}: {_why(error)}")
                continue
            answer = _read(address, response)
            if isinstance(answer, Unreachable):
                failures.append(answer.message)
                continue
            self._prefer(address)
            return answer
        return Unreachable(f"no license server answers ({'; '.join(failures)}); install one, or set WINDLASS_LS_ADDR")

    async def release(self, lease: str) -> None:
        """Give the GPUs back; a server that is gone lets the lease run out by itself."""
        try:
            await self._http.delete(f"{self._addresses[0]}/v1/leases/{lease}", timeout=RELEASE_TIMEOUT_S)
        except httpx.HTTPError:
            return

    def _prefer(self, address: str) -> None:
        self._addresses.remove(address)
        self._addresses.insert(0, address)


def _read(address: str, response: httpx.Response) -> Answer:
    content = _object(response)
    try:
        if response.status_code == OK:
            return _granted(content)
        if response.status_code == FORBIDDEN:
            return Refused(str(content["reason"]), str(content["message"]))
    except (KeyError, TypeError, ValueError):
        return Unreachable(f"{address} answered {response.status_code}, but not as a license server does")
    said = str(content.get("message") or response.text[:200].strip() or "nothing")
    return Unreachable(f"{address} answered {response.status_code}: {said}")


def _granted(content: dict[str, Any]) -> Granted:
    return Granted(
        lease=str(content["lease"]),
        ttl_s=float(content["ttlSeconds"]),
        grace_s=float(content.get("graceSeconds") or 0),
        expires=content.get("expires"),
        expired=bool(content.get("expired")),
        message=str(content.get("message") or ""),
    )


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        content = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _why(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__
