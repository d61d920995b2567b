"""The API server as a pod asks it: by its service account, from a thread, a few requests a minute.

A kubeconfig is not read here, so that a small server needs httpx2 alone, which is imported with the first request: a
server outside a cluster, and a command that asks nothing, start without it.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


_ANSWER_BYTES = 4 * 2**20
"""The largest object that etcd keeps has 1.5 MiB; JSON writes it a little longer."""
_ANSWER_TIMES = 3
"""Of `timeout_s`, which bounds each read: a whole answer takes no longer, however it comes."""
NOT_FOUND, CONFLICT = 404, 409


class KubeError(Exception):
    """The API server did not answer, or refused with something else than "not found" and "conflict"."""


@dataclass(frozen=True)
class KubeApi:
    """Where the API server is and who asks; the token is read each time, as it is replaced every hour."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    timeout_s: float = 5.0

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and object; 404 and 409 are answers, everything else that failed is a KubeError."""
        import httpx2

        try:
            with self._http.stream(method, path, headers=self._headers(), **_content(body)) as answer:
                text = _bounded(answer, time.monotonic() + _ANSWER_TIMES * self.timeout_s)
            if answer.status_code in (NOT_FOUND, CONFLICT):
                return answer.status_code, {}
            if not answer.is_success:
                raise KubeError(f"{method} {path}: {answer.status_code} {_message(answer, text)}")
            return answer.status_code, json.loads(text)
        except (httpx2.HTTPError, OSError, ValueError, RecursionError) as error:
            raise KubeError(f"{method} {path}: {error or type(error).__name__}") from error

    @cached_property
    def _http(self) -> httpx2.Client:
        """Connections are kept: a review of a token then needs no handshake. Proxies are no way to the API server."""
        import httpx2

        verify = ssl.create_default_context(cafile=str(self.ca_file)) if self.ca_file is not None else True
        return httpx2.Client(base_url=self.url, verify=verify, timeout=self.timeout_s, trust_env=False)

    def _headers(self) -> dict[str, str]:
        token = self.token_file.read_text(encoding="ascii").strip()
        return {"Authorization": f"Bearer {token}", "Accept": "application/json", "Accept-Encoding": "identity"}

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()


def in_pod(environment: Mapping[str, str] = os.environ, account: Path = _ACCOUNT) -> KubeApi | None:
    """The API server that this pod's service account talks to; None outside a cluster."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").is_file():
        return None
    address = f"[{host}]" if ":" in host else host
    return KubeApi(f"https://{address}:{port}", account / "token", account / "ca.crt")


def _content(body: dict[str, Any] | None) -> dict[str, Any]:
    return {} if body is None else {"json": body}


def _bounded(answer: httpx2.Response, end_s: float) -> bytes:
    text = bytearray()
    for part in answer.iter_raw():
        text += part
        if time.monotonic() > end_s:
            raise TimeoutError("the answer does not end")
        if len(text) > _ANSWER_BYTES:
            raise ValueError(f"the answer is longer than {_ANSWER_BYTES} bytes")
    return bytes(text)


def _message(answer: httpx2.Response, text: bytes) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return str(answer.reason_phrase)
