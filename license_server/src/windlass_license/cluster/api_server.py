"""The few requests to the Kubernetes API server: for the election and for the pods' tokens. Standard library only."""

import json
import os
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass_license.errors import SettingsError

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


_ANSWER_BYTES = 4 * 2**20
"""The largest object that etcd keeps has 1.5 MiB; JSON writes it a little longer."""


class KubeError(Exception):
    """The API server did not answer, or refused with something else than "not found" and "conflict"."""


@dataclass(frozen=True, slots=True)
class KubeApi:
    """Where the API server is and who asks; the token is read each time, as it is replaced every hour."""

    url: str
    token_file: Path
    ca_file: Path | None = None
    timeout_s: float = 5.0

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Status and object; 404 and 409 are answers, everything else that failed is a KubeError."""
        try:
            with self._opener().open(self._request(method, path, body), timeout=self.timeout_s) as answer:
                return answer.status, json.loads(answer.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                if error.code in (404, 409):
                    return error.code, {}
                raise KubeError(f"{method} {path}: {error.code} {_said(error)}") from error
        except (OSError, ValueError) as error:
            raise KubeError(f"{method} {path}: {error}") from error

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> urllib.request.Request:
        data = None if body is None else json.dumps(body).encode()
        token = self.token_file.read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
        return urllib.request.Request(self.url + path, data, headers, method=method)

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self.ca_file is not None:
            context = ssl.create_default_context(cafile=str(self.ca_file))
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)


def from_pod() -> KubeApi:
    """The API server that this pod's service account talks to."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (_ACCOUNT / "token").is_file():
        raise SettingsError(
            "--kube-lease and --lease-auth kubernetes need a pod with a service account token; outside a cluster leave "
            "the first out and give --lease-auth none, with which whoever reaches the server leases under any name"
        )
    address = f"[{host}]" if ":" in host else host
    return KubeApi(f"https://{address}:{port}", _ACCOUNT / "token", _ACCOUNT / "ca.crt")


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
