"""Plain HTTP to the API server: JSON in, JSON out, lists in pages, watches with bookmarks.

On aiohttp, whose parser is C: a request costs a third of the processor time that it costs by httpx. The login (service
account, kubeconfig, exec plug-ins, certificates) is lightkube's.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
import msgspec
from lightkube import KubeConfig
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.resource import ResourceDef, api_info
from lightkube.generic_resource import GenericGlobalResource, GenericNamespacedResource, GenericNamespacedStatus

from windlass_operator.errors import SettingsError

Kind = type[GenericNamespacedResource] | type[GenericGlobalResource] | type[GenericNamespacedStatus]
UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
TIMEOUT_S = 30.0
CONNECT_S = 10.0
CONNECTIONS = 64
GOODBYE_S = 0.25
UNAUTHORIZED = 401
READ_BUFFER = 2**20
# Compressing what goes over a local network costs both sides more than it saves.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
JSON = "application/json"
UNLIKE_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters of JSON that YAML 1.1 refuses or folds into blanks unless they are escaped."""
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ANSWER_BYTES_MAX = 16 * 2**20  # of one object; etcd stores 1.5 MiB, which JSON may spell longer


class StatusError(Exception):
    """The API server answered, and refused."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code = code
        self.message = _message(body) or f"HTTP {code}"
        super().__init__(self.message)


class TooLargeError(Exception):
    """The answer is longer than anything that is read."""


def _message(body: bytes) -> str:
    """The words of a Status, or of the plain text that an unknown path is answered with."""
    try:
        said = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()
    return str(said.get("message") or "") if isinstance(said, Mapping) else ""


def resource_of(kind: Kind) -> ResourceDef:
    """Group, version and kind."""
    return cast(ResourceDef, api_info(kind).resource)


def path_of(kind: Kind, namespace: str | None = None, name: str = "") -> str:
    """The collection's path, or one object's; None means all namespaces."""
    info = api_info(kind)
    group = f"apis/{info.resource.group}" if info.resource.group else "api"
    scope = f"/namespaces/{namespace}" if namespace and not issubclass(kind, GenericGlobalResource) else ""
    action = f"/{info.action}" if info.action else ""
    return f"/{group}/{info.resource.version}{scope}/{info.plural}" + (f"/{name}{action}" if name else "")


class Bearer:
    """The Authorization header, renewed when the API server no longer takes it (a rotated token, an exec plug-in)."""

    def __init__(self, auth: httpx2.Auth | None) -> None:
        self._auth = auth
        self._header = self._ask(refused=False)

    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {"Authorization": self._header} if self._header else {}

    def renew(self) -> None:
        """The last header was refused."""
        self._header = self._ask(refused=True)

    def _ask(self, refused: bool) -> str:
        if self._auth is None:
            return ""
        flow = self._auth.sync_auth_flow(httpx2.Request("GET", "https://kubernetes"))
        request = next(flow)
        try:
            if refused:
                request = flow.send(httpx2.Response(UNAUTHORIZED, request=request))
        except StopIteration:  # this kind of login has nothing newer
            pass
        return request.headers.get("Authorization", "")


def encoded(body: object) -> bytes:
    """A request's body as JSON that is the same document to a YAML parser, which reads it in a server-side apply."""
    text = msgspec.json.encode(body).decode()
    return UNLIKE_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


@dataclass(frozen=True, slots=True)
class Rest:
    """One pool of connections to one API server, as one user."""

    http: aiohttp.ClientSession
    bearer: Bearer
    timeout_s: float = TIMEOUT_S

    async def call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
    ) -> bytes:
        """One request, the answer's bytes; StatusError when it is refused, one of UNREACHABLE when there is none."""
        content = None if body is None else encoded(body)
        timeout = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=CONNECT_S)
        for attempt in (1, 2):
            headers = {**HEADERS, **self.bearer.headers(), **({"Content-Type": content_type} if content else {})}
            async with self.http.request(
                method, path, params=params, data=content, headers=headers, timeout=timeout
            ) as answer:
                text = await _bounded(answer, ANSWER_BYTES_MAX)
            if answer.status == UNAUTHORIZED and attempt == 1:
                self.bearer.renew()
                continue
            break
        if not answer.ok:
            raise StatusError(answer.status, text)
        return text

    async def read(self, path: str, params: Mapping[str, str], most: int, accept: str = "") -> bytes:
        """One GET of at most so many bytes, else TooLargeError; `accept` asks for another form of the objects."""
        timeout = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=CONNECT_S)
        for attempt in (1, 2):
            headers = {**HEADERS, **self.bearer.headers(), **({"Accept": accept} if accept else {})}
            async with self.http.get(path, params=params, headers=headers, timeout=timeout) as answer:
                text = await _bounded(answer, most)
            if answer.status != UNAUTHORIZED or attempt == 2:
                break
            self.bearer.renew()
        if not answer.ok:
            raise StatusError(answer.status, text)
        return text

    async def lines(self, path: str, params: Mapping[str, str], accept: str = "") -> AsyncGenerator[bytes, None]:
        """The lines of a stream without end; what silence means is the caller's to say."""
        headers = {**HEADERS, **self.bearer.headers(), **({"Accept": accept} if accept else {})}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        async with self.http.get(path, params=params, headers=headers, timeout=timeout) as answer:
            if not answer.ok:
                if answer.status == UNAUTHORIZED:
                    self.bearer.renew()
                raise StatusError(answer.status, await answer.read())
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    *whole, rest = (rest + chunk).split(b"\n")
                    if len(rest) > ANSWER_BYTES_MAX:
                        raise TooLargeError(f"a line of the watch is longer than {ANSWER_BYTES_MAX} bytes")
                    for line in whole:
                        yield line
            finally:
                _cut(answer)

    async def aclose(self) -> None:
        """Let the connections go; requests that were cancelled still say goodbye for a moment."""
        await self.http.close()
        await asyncio.sleep(GOODBYE_S)


async def _bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The whole body; of one that is longer the rest is not read, and its connection is closed."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > most:
            _cut(answer)
            raise TooLargeError(f"{answer.url.path} answers with more than {most} bytes")
    return bytes(body)


def _cut(answer: aiohttp.ClientResponse) -> None:
    """End a stream that has no end of its own: TLS's farewell would wait for the API server's, long after us."""
    if answer.connection is not None and isinstance(answer.connection.transport, asyncio.WriteTransport):
        answer.connection.transport.abort()


def login(config: KubeConfig | None = None, timeout_s: float = TIMEOUT_S) -> Rest:
    """From the pod's service account, else KUBECONFIG, else ~/.kube/config; needs a running event loop."""
    chosen = (config or KubeConfig.from_env()).get()
    if chosen is None:
        raise SettingsError("KUBECONFIG names no current context: choose one with `kubectl config use-context`")
    connector = aiohttp.TCPConnector(ssl=_tls(chosen), limit=CONNECTIONS)
    server = chosen.cluster.server.rstrip("/") + "/"
    http = aiohttp.ClientSession(
        base_url=server, connector=connector, proxy=proxy_for(server), read_bufsize=READ_BUFFER
    )
    return Rest(http, Bearer(user_auth(chosen.user)), timeout_s)


def proxy_for(server: str) -> str | None:
    """The environment's proxy on the way to a server; asked once, as aiohttp's `trust_env` reads files each time."""
    url = urlsplit(server)
    return None if proxy_bypass(url.netloc.rpartition("@")[2]) else getproxies().get(url.scheme)


def _tls(config: SingleConfig) -> ssl.SSLContext | bool:
    if not config.cluster.server.startswith("https"):
        return True
    user: Any = config.user
    return verify_cluster(config.cluster, user, config.abs_file)
