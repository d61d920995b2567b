"""HTTP to the API server by `kubernetes.aio`: its login, its client; JSON in, JSON out.

The bytes of an answer are read within bounds and decoded by who wants them: the library's models would drop fields of a
newer API server, and its own decoding of an answer costs more than the request.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from windlass_operator.errors import SettingsError

UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)
HOME_CONFIG = "~/.kube/config"
TIMEOUT_S = 30.0
CONNECT_S = 10.0
CONNECTIONS = 64
IDLE_S = 5.0  # until an unused connection is closed; with TLS each holds 0.3 MiB (ADR 73)
GOODBYE_S = 0.25
UNAUTHORIZED = 401
READ_BUFFER = 2**20
# Compressing what goes over a local network costs both sides more than it saves.
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
JSON = "application/json"
# With a parameter: for the bare type the library writes the JSON itself, whose pairs of surrogates YAML refuses.
APPLY = "application/apply-patch+yaml;charset=utf-8"
UNLIKE_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters of JSON that YAML 1.1 refuses or folds into blanks unless they are escaped."""
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
ANSWER_BYTES_MAX = 16 * 2**20  # of one object; etcd stores 1.5 MiB, which JSON may spell longer


class StatusError(Exception):
    """The API server answered, and refused."""

    def __init__(self, code: int, body: bytes) -> None:
        self.code = code
        self.message = message(body) or f"HTTP {code}"
        super().__init__(self.message)


class TooLargeError(Exception):
    """The answer is longer than anything that is read."""


def message(body: bytes) -> str:
    """The words of a Status, or of the plain text that an unknown path is answered with."""
    try:
        said = msgspec.json.decode(body)
    except msgspec.MsgspecError:
        return body.decode(errors="replace").strip()
    return str(said.get("message") or "") if isinstance(said, Mapping) else ""


def encoded(body: object) -> bytes:
    """A request's body as JSON that is the same document to a YAML parser, which reads it in a server-side apply."""
    text = msgspec.json.encode(body).decode()
    return UNLIKE_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def kubeconfig() -> str:
    """The kubeconfig of this process, perhaps several; SettingsError where there is none."""
    files = os.environ.get("KUBECONFIG") or HOME_CONFIG
    if not any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        raise SettingsError(f"no access to a cluster: no service account of a pod, and no kubeconfig {files}")
    return files


@dataclass
class Login:
    """Where the API server is and as whom it is asked: service account, else KUBECONFIG, else ~/.kube/config."""

    configuration: Configuration = field(default_factory=Configuration)

    @classmethod
    async def find(cls) -> Login:
        """The login of this process; SettingsError where there is none."""
        found = cls()
        try:
            await found.renew()
            found.tls()
        except (OSError, ValueError, yaml.YAMLError) as error:  # OSError: also a certificate that ssl cannot use
            why = " ".join(str(error).split())
            raise SettingsError(
                f"no access to a cluster: its kubeconfig or certificates cannot be used: {why}"
            ) from error
        return found

    async def renew(self) -> None:
        """Read it anew: a token may have been rotated, an exec plug-in may have another."""
        try:
            config.load_incluster_config(self.configuration)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            await self._kubeconfig()
        if not self.configuration.proxy:
            self.configuration.proxy = proxy_for(self.server)

    async def _kubeconfig(self) -> None:
        files = kubeconfig()
        given = {"client_configuration": self.configuration, "persist_config": False}
        try:
            await config.load_kube_config(files, **given)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise SettingsError(f"no access to a cluster by {files}: {error}") from error

    @property
    def server(self) -> str:
        """The API server's address."""
        return str(self.configuration.host).rstrip("/")

    async def headers(self) -> Mapping[str, str]:
        """Who asks; a service account's token is read anew each minute."""
        token = await self.configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return {"Authorization": token} if token else {}

    def tls(self) -> ssl.SSLContext:
        """The certificates of both sides, read anew."""
        made: ssl.SSLContext = ApiClient(copy(self.configuration)).rest_client.ssl_context
        return made

    def client(self) -> ApiClient:
        """A client with a pool of its own. Needs a running event loop."""
        made = ApiClient(copy(self.configuration))
        made.rest_client.pool_manager = _session(made.rest_client.ssl_context, CONNECTIONS, headers=HEADERS)
        return made

    def session(self, **options: Any) -> aiohttp.ClientSession:  # noqa: ANN401 - of aiohttp's session
        """For kopf: a session as that of the library's client, without a bound on connections."""
        return _session(self.tls(), 0, proxy=self.configuration.proxy, **options)

    def rest(self, timeout_s: float = TIMEOUT_S) -> Rest:
        """A client of its own pool."""
        return Rest(self, self.client(), timeout_s)


def _session(tls: ssl.SSLContext, connections: int, **options: Any) -> aiohttp.ClientSession:  # noqa: ANN401 - of aiohttp's session
    """A session with a pool of its own, which keeps no connection for long that nobody uses."""
    connector = aiohttp.TCPConnector(ssl=tls, limit=connections, keepalive_timeout=IDLE_S)
    return aiohttp.ClientSession(connector=connector, trust_env=False, read_bufsize=READ_BUFFER, **options)


@dataclass(frozen=True, slots=True)
class Rest:
    """One pool of connections to one API server, as one user."""

    login: Login
    api: ApiClient
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
        content = encoded(body) if content_type == APPLY else body
        headers = {"Content-Type": content_type} if body is not None else {}
        return await self._ask(method, path, params, content, headers, ANSWER_BYTES_MAX)

    async def read(self, path: str, params: Mapping[str, str], most: int, accept: str = "") -> bytes:
        """One GET of at most so many bytes, else TooLargeError; `accept` asks for another form of the objects."""
        return await self._ask("GET", path, params, None, {"Accept": accept} if accept else {}, most)

    async def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: object,
        headers: Mapping[str, str],
        most: int,
    ) -> bytes:
        url = self.login.server + path + (f"?{urlencode(params)}" if params else "")
        timeout = aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=CONNECT_S)
        for attempt in (1, 2):
            given = {**headers, **await self.login.headers()}
            answer = await self.api.call_api(method, url, given, content, _request_timeout=timeout)
            try:
                text = await bounded(answer.response, most)
            finally:
                answer.response.release()
            if answer.status != UNAUTHORIZED or attempt == 2:
                break
            await self.login.renew()
        if not answer.response.ok:
            raise StatusError(answer.status, text)
        return text

    async def aclose(self) -> None:
        """Let the connections go; requests that were cancelled still say goodbye for a moment."""
        await self.api.close()  # type: ignore[no-untyped-call]
        await asyncio.sleep(GOODBYE_S)


async def bounded(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The whole body; of one that is longer the rest is not read, and its connection is closed."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > most:
            cut(answer)
            raise TooLargeError(f"{answer.url.path} answers with more than {most} bytes")
    return bytes(body)


def cut(answer: aiohttp.ClientResponse) -> None:
    """End a stream that has no end of its own: TLS's farewell would wait for the API server's, long after us."""
    if answer.connection is not None and isinstance(answer.connection.transport, asyncio.WriteTransport):
        answer.connection.transport.abort()


def proxy_for(server: str) -> str | None:
    """The environment's proxy on the way to a server; asked once, as aiohttp's `trust_env` reads files each time."""
    url = urlsplit(server)
    return None if proxy_bypass(url.netloc.rpartition("@")[2]) else getproxies().get(url.scheme)
