"""License servers through the API server's proxy: what each has in force, and an upload."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import secrets
from dataclasses import dataclass
from datetime import datetime

from typing_extensions import TypedDict
from windlass_api.objects.inventory import usable
from windlass_base.kube.errors import ClientError, ForbiddenError, NotFoundError, UnauthorizedError, UnreachableError
from windlass_base.kube.rest import Api
from windlass_client import paths, watching
from windlass_client.licenses import DEPLOYMENTS, HOME, PORT, SELECTOR, Granted, LicenseServer, granted_in, server_of

from windlass_console.cluster import foreign
from windlass_console.cluster.foreign import Ask, Program
from windlass_console.errors import ServiceAnswerError, UnusableError
from windlass_console.views.license_places import warning_of

TOKEN_HEADER = "X-Windlass-Admin-Token"  # noqa: S105 - the name of a header
FILE_MAX = 16 << 20  # bytes; the license server's own limit
TEXT_MAX = 1 << 20  # bytes; a license in numbers, as the server shows it without its admin token, has some hundred
SHOWN_MAX = 1000  # characters
SERVERS_MAX = 32  # that are asked; a cluster has one or two, and a tenant may make any number
ANSWER_S = 5.0  # of one server, on a busy node too; packets that a NetworkPolicy drops are never answered
POLICY = (
    "where a NetworkPolicy keeps it away, name the API server's addresses in networkPolicy.controlPlane of the license "
    "server's chart"
)
METRIC = re.compile(r"^(windlass_license_(?:leases|gpus)_live) (\S+)$", re.MULTILINE)
FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class GrantView(TypedDict):
    """GPUs of one brand with one end; `uuids` is empty for a viewer who sees numbers alone."""

    brand: str
    count: int
    issued: str
    expires: str
    uuids: list[str]


class LicenseView(TypedDict):
    """A license in force."""

    customer: str
    appid: str
    gpus: int
    limit: int
    expires: str
    expired: bool
    grants: list[GrantView]


class Leases(TypedDict):
    """What is in use now."""

    live: int
    gpus: int


class ServerView(TypedDict):
    """One license server; `problem` is why it could not be asked, `warning` why it is perhaps somebody else's."""

    namespace: str
    name: str
    ready: int
    replicas: int
    license: LicenseView | None
    leases: Leases
    problem: str
    adminToken: bool
    warning: str
    upload: bool


class Licenses(TypedDict):
    """All license servers that the user may see, and the GPUs that the nodes offer."""

    servers: list[ServerView]
    gpusInCluster: int | None


async def licenses(api: Api, now: datetime, addresses: tuple[str, ...] = ()) -> Licenses:
    """All of them; those of kube-system where the user may not look at all namespaces.

    `addresses` are those of the operator's configuration, where it is known; their servers come first.
    """
    servers, offered = await asyncio.gather(_servers(api), _offered(api))
    views = sorted((_unasked(one, addresses) for one in servers), key=lambda view: bool(view["warning"]))
    by_place = {(one.namespace, one.name): one for one in servers}
    for view in views[SERVERS_MAX:]:
        view["problem"] = f"not asked, as there are more than {SERVERS_MAX} license servers"
    await asyncio.gather(*(_ask(api, by_place[one["namespace"], one["name"]], one, now) for one in views[:SERVERS_MAX]))
    return Licenses(servers=views, gpusInCluster=offered)


async def _servers(api: Api) -> list[LicenseServer]:
    try:
        rows = await watching.listing(api, watching.Collection(DEPLOYMENTS, "deployments", SELECTOR))
    except ForbiddenError:
        rows = await watching.listing(api, watching.Collection(paths.deployments(HOME), "deployments", SELECTOR))
    return [server_of(row) for row in rows.rows]


async def _offered(api: Api) -> int | None:
    try:
        nodes = await watching.listing(api, watching.Collection(paths.NODES, "nodes"))
    except ForbiddenError:
        return None
    return sum(one.allocatable for one in usable(nodes.rows))


def _unasked(server: LicenseServer, addresses: tuple[str, ...]) -> ServerView:
    """What the Deployment says."""
    warning = warning_of((server.namespace, server.name), addresses)
    return ServerView(
        namespace=server.namespace,
        name=server.name,
        ready=server.ready,
        replicas=server.replicas,
        license=None,
        leases=Leases(live=0, gpus=0),
        problem="",
        adminToken=server.token is not None,
        warning=warning,
        upload=not (warning and addresses),
    )


async def _ask(api: Api, server: LicenseServer, view: ServerView, now: datetime) -> None:
    """Put what the server answers into its view."""
    try:
        async with asyncio.timeout(ANSWER_S):
            text, metrics = await _read(api, server, "/ls/view"), await _read(api, server, "/metrics")
        view["license"] = _license(await asyncio.to_thread(granted_in, text), now) if text else None
        if text and not view["license"]:
            view["problem"] = f"license server {server} sends what is no license"
        figures = dict(METRIC.findall(metrics))
        view["leases"] = Leases(
            live=_whole(figures.get("windlass_license_leases_live")),
            gpus=_whole(figures.get("windlass_license_gpus_live")),
        )
    except UnauthorizedError:  # a review's word
        raise
    except (UnreachableError, TimeoutError) as error:
        why = str(error) or f"no answer within {ANSWER_S:g} s"
        view["problem"] = f"license server {server} cannot be reached by the API server: {why}; {POLICY}"
    except (ClientError, ServiceAnswerError) as error:
        hidden = isinstance(error, ServiceAnswerError) and error.service_status in foreign.NO_ANSWER
        view["problem"] = f"{error}; {POLICY}" if hidden else str(error)


def _license(granted: Granted | None, now: datetime) -> LicenseView | None:
    if granted is None:
        return None
    return LicenseView(
        customer=granted.customer,
        appid=granted.appid,
        gpus=granted.gpus,
        limit=granted.limit,
        expires=granted.expires.isoformat(),
        expired=granted.expires <= now,
        grants=[
            GrantView(
                brand=one.brand,
                count=one.count,
                issued=one.issued.isoformat(),
                expires=one.expires.isoformat(),
                uuids=list(one.uuids),
            )
            for one in granted.grants
        ],
    )


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except (ValueError, OverflowError):
        return 0


async def _read(api: Api, server: LicenseServer, path: str) -> str:
    """The text at a path of the server; empty where no license is in force."""
    program = _program(server)
    async with foreign.asked(api, program, Ask("GET", path)) as answer:
        text = await answer.read(TEXT_MAX)
        if answer.status == 404 and not foreign.is_status(text):
            return ""
        if text is None:
            raise ServiceAnswerError(f"{program.what} sends more than {TEXT_MAX >> 20} MiB to {path}", answer.status)
        if not answer.is_success:
            shown = foreign.sentence(answer.status, text)
            raise ServiceAnswerError(f"{program.what} answers {answer.status} to {path}: {shown}", answer.status)
    return text.decode("utf-8", "replace")


def _program(server: LicenseServer) -> Program:
    """The server's Service."""
    what = f"license server {server}"
    return Program(server.namespace, "services", server.name, str(PORT), what, https=server.https)


@dataclass(frozen=True, slots=True)
class Upload:
    """A license file, the admin token that the user typed or "", and the operator's addresses where they are known."""

    content: bytes
    token: str
    filename: str
    addresses: tuple[str, ...] = ()


async def upload(api: Api, namespace: str, name: str, given: Upload) -> str:
    """Put a file in force, and what the server answers; UnusableError with its words where it refuses."""
    if given.addresses and (warning := warning_of((namespace, name), given.addresses)):
        raise UnusableError(f"license server {namespace}/{name}: {warning}; nothing was sent")
    return await _send(api, namespace, name, given)


async def _send(api: Api, namespace: str, name: str, given: Upload) -> str:
    if not given.content:
        raise UnusableError("the license file is empty; choose the file that windlass-license issue wrote")
    server = await _server(api, namespace, name)
    token = given.token or await _admin_token(api, server)
    boundary = secrets.token_hex(16)
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", **({TOKEN_HEADER: token} if token else {})}
    filename = given.filename if FILE_NAME.fullmatch(given.filename) else "license.dat"
    body = _form(boundary, filename, given.content)
    program = _program(server)
    async with foreign.asked(api, program, Ask("POST", "/ls", body, headers)) as answer:
        text = _shown(await answer.read(FILE_MAX))
        if answer.status == 401:
            raise UnusableError(f"{program.what} refuses the admin token: {text}")
        if answer.status in foreign.NO_ANSWER:
            raise UnusableError(f"{program.what} cannot be reached by the API server: {text}; {POLICY}")
        if not answer.is_success:
            raise UnusableError(f"{program.what} refuses the file: {text}")
    return text


async def _server(api: Api, namespace: str, name: str) -> LicenseServer:
    params = {**SELECTOR, "fieldSelector": f"metadata.name={name}"}
    found = await watching.listing(api, watching.Collection(paths.deployments(namespace), "deployments", params))
    if not found.rows:
        raise NotFoundError(f"there is no license server {namespace}/{name}; see the list of license servers")
    return server_of(found.rows[0])


async def _admin_token(api: Api, server: LicenseServer) -> str:
    """The token from its Secret, by the user's right to read it; empty where the server asks for none."""
    if server.token is None:
        return ""
    name, entry = server.token
    what = f"secret {server.namespace}/{name}"
    try:
        secret = await api.call("GET", paths.core(server.namespace, "secrets", name), what)
        return base64.b64decode(secret["data"][entry]).decode().strip()
    except ForbiddenError as error:
        raise UnusableError(
            f"the license server asks for its admin token; enter it, or have the right to {what}"
        ) from error
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError) as error:
        raise UnusableError(f"{what} has no admin token under {entry}; enter it") from error


def _form(boundary: str, filename: str, content: bytes) -> bytes:
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return head.encode() + content + f"\r\n--{boundary}--\r\n".encode()


def _shown(text: bytes | None) -> str:
    return " ".join((text or b"").decode("utf-8", "replace").split())[:SHOWN_MAX]
