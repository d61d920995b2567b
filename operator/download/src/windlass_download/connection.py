"""The one place that speaks HTTP to a hub: redirects by hand, the token to the endpoint only, bounds on every answer.

Proxies come from HTTPS_PROXY and its like, the CA bundle from SSL_CERT_FILE: httpx2 reads both. A site's own
authorities are trusted beside that bundle. One parser, httpx2's, reads each URL: with two of them a URL could name the
endpoint for the token and another host for the connection.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2
from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_download.errors import DownloadError, UserError
from windlass_download.reach import Reach, literal
from windlass_download.refusals import Answer, FileChanged, HubTrouble, refusal
from windlass_download.wanted import Wanted, broken, printable
from windlass_download.wire import Meter, install

CONNECT_S = 15.0
REDIRECTS_MAX = 6
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LISTING_MAX = 16 << 20  # bytes of one page; 20,000 rows of ModelScope's have about 12 MiB
VALUES_MAX = 1_500_000  # JSON values of one page: 20,000 rows of ModelScope's have 500,000
LINK_MAX = 4096  # characters
ERROR_MAX = 8 << 10
CHUNK = 1 << 20
DEFAULT_PORTS = {"http": 80, "https": 443}
CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")
HOST = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,253}")  # as it goes to the resolver, in IDNA

Origin = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Body:
    """A file's bytes as they come; `offset` is where in the file they begin."""

    response: httpx2.Response
    offset: int
    ranged: bool  # whether the server gave the range that was asked for
    address: str  # the last URL of the redirects

    def chunks(self) -> Iterator[bytes]:
        """The bytes, as the server encoded them; HubTrouble when they stop early or fall silent."""
        try:
            yield from self.response.iter_raw()  # as they come: what a chunk gathers is lost when it breaks off
        except httpx2.HTTPError as error:
            raise _trouble(error) from error


def trusted(authorities: str) -> ssl.SSLContext:
    """The certificates that a hub's may be signed by: those that httpx2 knows, and these of a site, as PEM text.

    Raises UserError where the text holds no certificate.
    """
    context = httpx2.create_ssl_context()
    try:
        if authorities:
            context.load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        raise UserError("HubUntrusted", f"the CA bundle of download.caBundle cannot be read: {error}") from error
    return context


class Connection:
    """Connections to one hub, for many threads."""

    def __init__(
        self, wanted: Wanted, credentials: dict[str, str], stall_s: float, connections: int, authorities: str = ""
    ) -> None:
        self._wanted = wanted
        self._credentials = credentials
        self._home = origin(wanted.endpoint)
        self._reach = Reach(self._home[1])
        self._meter = Meter()
        self._client = httpx2.Client(
            verify=trusted(authorities),
            timeout=httpx2.Timeout(stall_s, connect=min(CONNECT_S, stall_s), pool=None),
            limits=httpx2.Limits(max_connections=connections + 2, max_keepalive_connections=connections + 2),
            headers={"User-Agent": "windlass-download", "Accept-Encoding": "identity"},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
        install(self._client, self._meter, stall_s, self._reach)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def ask(self, url: str) -> tuple[Any, str]:
        """The JSON of a URL and its `Link` header."""
        with self._open(url, {"Accept": "application/json"}) as (response, _):
            if _encoded(response):
                raise broken(f"{self._wanted.endpoint} compresses its list of files, which was asked for as it is")
            text = _bounded(response, LISTING_MAX + 1)
            if len(text) > LISTING_MAX:
                raise broken(f"{self._wanted.endpoint} sends a list of files of more than {LISTING_MAX >> 20} MiB")
            try:
                return json_of(text, VALUES_MAX), response.headers.get("link", "")[:LINK_MAX]
            except UnusableJsonError as error:
                raise broken(f"{self._wanted.endpoint} does not answer as a hub: {error}") from error

    @contextmanager
    def body(self, url: str, start: int, end: int, size: int) -> Iterator[Body]:
        """Bytes `start` to before `end` of a file of `size` bytes, or all of it where the server knows no ranges."""
        whole = start == 0 and end == size
        headers = {} if whole else {"Range": f"bytes={start}-{end - 1}"}
        with self._open(url, headers) as (response, address):
            if _encoded(response):
                raise HubTrouble("the hub compresses what was asked for as it is", 0)
            ranged = response.status_code == httpx2.codes.PARTIAL_CONTENT
            if ranged:
                _check_range(response.headers.get("content-range", ""), start, size)
            yield Body(response, start if ranged else 0, ranged or whole, address)

    @contextmanager
    def _open(self, url: str, headers: dict[str, str]) -> Iterator[tuple[httpx2.Response, str]]:
        """The answer behind all redirects, and its URL."""
        secure = self._home[0] == "https"
        for _ in range(REDIRECTS_MAX):
            target = self._safe(url, secure)
            secure, own = target[0] == "https", target == self._home
            response = self._send(url, {**headers, **(self._credentials if own else {})})
            try:
                if response.status_code not in REDIRECTS:
                    if response.status_code not in (httpx2.codes.OK, httpx2.codes.PARTIAL_CONTENT):
                        raise self._refused(response, own)
                    yield response, url
                    return
                url = self._next(url, response.headers.get("location", ""))
            finally:
                response.close()
        raise HubTrouble(f"{self._wanted.endpoint} redirects without end", 0)

    def _safe(self, url: str, secure: bool) -> Origin:
        """The origin of a URL that may be asked; UserError for another protocol, a fall back from https, or a user."""
        try:
            target, user = origin(url), httpx2.URL(url).userinfo
        except (httpx2.InvalidURL, ValueError):
            target, user = ("", "", None), b""
        host = HOST.fullmatch(target[1]) or literal(target[1])
        if target[0] not in DEFAULT_PORTS or not host or user or (secure and target[0] == "http"):
            raise broken(f"{self._wanted.endpoint} leads to where no model is fetched from")
        if literal(target[1]):
            self._reach.allowed(target[1], [target[1]])
        return target

    def _send(self, url: str, headers: dict[str, str]) -> httpx2.Response:
        self._meter.head()
        try:
            return self._client.send(self._client.build_request("GET", url, headers=headers), stream=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _trouble(error) from error
        finally:
            self._meter.body()

    def _refused(self, response: httpx2.Response, own: bool) -> DownloadError:
        try:
            body = b"" if _encoded(response) else _bounded(response, ERROR_MAX)
        except HubTrouble:
            body = b""
        answer = Answer(response.status_code, response.headers, body, own)
        return refusal(answer, self._wanted, bool(self._credentials))

    def _next(self, url: str, location: str) -> str:
        try:
            return str(httpx2.URL(url).join(location)) if location else ""
        except (httpx2.InvalidURL, ValueError):
            return ""


def origin(url: str) -> Origin:
    """Scheme, host and port: to whom a token may be shown. InvalidURL when it is none."""
    parts = httpx2.URL(url)
    host = parts.raw_host.decode("ascii", "replace").lower()
    return parts.scheme, host, parts.port or DEFAULT_PORTS.get(parts.scheme)


def _encoded(response: httpx2.Response) -> bool:
    """Whether a body is compressed; a few bytes of it may stand for gigabytes."""
    return str(response.headers.get("content-encoding", "identity")).strip().lower() not in ("identity", "")


def _bounded(response: httpx2.Response, most: int) -> bytes:
    """At most that many bytes of a body."""
    text = bytearray()
    try:
        for chunk in response.iter_raw(CHUNK):
            text += chunk
            if len(text) >= most:
                break
    except httpx2.HTTPError as error:
        raise _trouble(error) from error
    return bytes(text[:most])


def _check_range(text: str, start: int, size: int) -> None:
    match = CONTENT_RANGE.fullmatch(text.strip())
    if match is None or int(match[1]) != start or match[2] not in (str(size), "*"):
        raise FileChanged(printable(text) or "an unknown range")


def _trouble(error: Exception) -> DownloadError:
    """Another try, but for a certificate that nobody here trusts: that does not change by itself."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UserError("HubUntrusted", f"the hub's certificate is not trusted: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    words = printable(str(error)) or type(error).__name__
    return HubTrouble(f"no answer from the hub: {words}", 0)
