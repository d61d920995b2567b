"""The license server's HTTP for the admin: the license in force, an upload, figures; through a port-forward."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
from windlass_base.kube.errors import ClientError, UnreachableError
from windlass_client import paths
from windlass_client.licenses import PORT, LicenseServer

from windlass_kubectl.forward import Forward, port_forward
from windlass_kubectl.licensing.errors import LicensingError
from windlass_kubectl.session import Session
from windlass_kubectl.talk import http_address

TIMEOUT_S, PATIENCE_S, AGAIN_S = 30.0, 30.0, 1.0
FILE_MAX = 17 << 20  # bytes; the server takes 16 MiB
SAID_MAX = 1000  # characters
NOT_FOUND, UNAUTHORIZED, NOT_NOW = 404, 401, 503
NO_LICENSE = "no license is in force"
METRIC = re.compile(r"^(windlass_license_[a-z_]+) (\S+)$", re.MULTILINE)


class ServerHttp:
    """One license server that answers at a URL."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def license_file(self) -> bytes | None:
        """The file in force; None when there is none."""
        answer = await self._ask("GET", "/ls/file")
        if answer.status_code == NOT_FOUND and answer.text.startswith(NO_LICENSE):
            return None
        if answer.status_code == NOT_FOUND:
            raise LicensingError("the license server is older than this plug-in; upgrade its chart and image")
        return _good(answer).content

    async def view(self) -> str:
        """The license in force as YAML; empty when there is none."""
        answer = await self._ask("GET", "/ls/view")
        return "" if answer.status_code == NOT_FOUND else _good(answer).text

    async def answer_key(self) -> str:
        """The public key that it signs answers with."""
        return _good(await self._ask("GET", "/ls/answer-key")).text

    async def upload(self, file: Path) -> str:
        """Put a file in force; what the server says."""
        content = await asyncio.to_thread(file.read_bytes)
        answer = await self._ask("POST", "/ls", files={"file": (file.name, content)})
        return _good(answer).text.strip()

    async def figures(self) -> dict[str, float]:
        """Its metrics without labels."""
        text = _good(await self._ask("GET", "/metrics")).text
        return {name: float(value) for name, value in METRIC.findall(text)}

    async def _ask(self, method: str, path: str, **content: object) -> httpx2.Response:
        """Asked again while nobody answers or a stand-by does: the server may only just have been started."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while True:
            try:
                answer = await self._http.request(method, path, **content)  # type: ignore[arg-type]
                why = f"HTTP {answer.status_code}: {answer.text[:SAID_MAX].strip()}"
                if answer.status_code != NOT_NOW:
                    return answer
            except httpx2.HTTPError as error:
                why = str(error) or type(error).__name__
            if loop.time() > until:
                raise UnreachableError(f"the license server does not answer {method} {path}: {why}")
            await asyncio.sleep(AGAIN_S)


def _good(answer: httpx2.Response) -> httpx2.Response:
    if answer.status_code == UNAUTHORIZED:
        raise LicensingError("the license server refuses the admin token; give another with --token")
    if not answer.is_success or len(answer.content) > FILE_MAX:
        raise LicensingError(f"the license server answers {answer.status_code}: {answer.text[:SAID_MAX].strip()}")
    return answer


@asynccontextmanager
async def reach(session: Session, server: LicenseServer) -> AsyncIterator[ServerHttp]:
    """Through a port-forward of kubectl's, or at --address."""
    token = session.options.token or await _token(session, server)
    headers = {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token else {})}
    address = session.options.address
    if address:
        async with _client(http_address(address).rstrip("/"), headers, verify=True) as http:
            yield ServerHttp(http)
        return
    until = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        async with port_forward(server.name, session.kubectl_flags(server.namespace), port=PORT) as forward:
            url = forward.url.replace("http:", "https:", 1) if server.https else forward.url
            # The API server has led to the pod; its certificate is for its own name, not for 127.0.0.1.
            async with _client(url, headers, verify=False) as http:
                if await stands(http, forward) or asyncio.get_running_loop().time() > until:
                    yield ServerHttp(http)
                    return


async def stands(http: httpx2.AsyncClient, forward: Forward) -> bool:
    """Whether the port-forward lasts: kubectl ends at a first connection to a pod that does not listen yet."""
    with suppress(httpx2.HTTPError):
        await http.get("/ls/view")
        return True
    await asyncio.sleep(AGAIN_S)
    return forward.process.returncode is None


def _client(url: str, headers: dict[str, str], *, verify: bool) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S, verify=verify, trust_env=False)


async def _token(session: Session, server: LicenseServer) -> str:
    if server.token is None:
        return ""
    name, entry = server.token
    what = f"secret {server.namespace}/{name}"
    try:
        secret = await session.client.api.call("GET", paths.core(server.namespace, "secrets", name), what)
        return base64.b64decode(secret["data"][entry]).decode().strip()
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
        raise LicensingError(f"{what} has no admin token under {entry}; give it with --token") from error
    except ClientError as error:
        raise LicensingError(f"{error}; the admin token lies there: give it with --token") from error
