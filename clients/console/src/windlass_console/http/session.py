"""Signing in and out, and what the user may do."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from windlass_console import __version__
from windlass_console.http.asking import BY_COOKIE, Asking, InNamespace, The, Who, take_back
from windlass_console.identity.pool import Identity
from windlass_console.identity.token import expiry_of, usable

router = APIRouter(prefix="/api", tags=["session"])


class SignIn(BaseModel):
    """A Kubernetes token, as `kubectl create token` prints it."""

    model_config = ConfigDict(extra="forbid")

    token: str


class SeenNamespace(TypedDict):
    """A namespace whose services the user may list."""

    name: str
    create: bool


class Session(TypedDict):
    """Who is signed in, and where they may look."""

    user: str
    groups: list[str]
    expires: str | None
    via: str
    version: str
    namespaces: list[SeenNamespace]
    allNamespaces: bool
    namespacesComplete: bool
    defaultNamespace: str


class Permissions(TypedDict):
    """What pages may offer in a namespace."""

    namespace: str
    can: dict[str, bool]


@router.get("/session")
async def read_session(who: Who) -> Session:
    """Who is signed in; 401 for nobody."""
    return await _session(who)


@router.post("/session")
async def sign_in(console: The, given: SignIn, response: Response) -> Session:
    """Check the token with the API server and put it, encrypted, into the cookie."""
    token = usable(given.token)
    ends = int(time.time()) + 3600 * console.settings.session_hours
    until = min(ends, expiry_of(token) or ends)
    sealed = console.seal.close(token, until)
    async with console.identities.asked(token) as identity:
        identity.rights.forget()
        session = await _session(Asking(identity, token, BY_COOKIE, until))
    response.set_cookie(
        console.settings.cookie_name,
        sealed,
        max_age=max(0, until - int(time.time())),
        path=console.settings.cookie_path,
        secure=console.settings.secure_cookie,
        httponly=True,
        samesite="strict",
    )
    return session


@router.delete("/session", status_code=204)
async def sign_out(console: The, response: Response) -> None:
    """Take the cookie back; the token itself stays valid until it ends."""
    take_back(response, console.settings)


@router.get("/permissions")
async def read_permissions(who: Who, namespace: InNamespace) -> Permissions:
    """What the API server says that the user may do."""
    return Permissions(namespace=namespace, can=await who.identity.rights.table(namespace))


async def _session(who: Asking) -> Session:
    user, groups = await who.identity.user()
    seen = await who.identity.rights.visible()
    return Session(
        user=user,
        groups=groups,
        expires=datetime.fromtimestamp(who.until, UTC).isoformat() if who.until else None,
        via=who.via,
        version=__version__,
        namespaces=[SeenNamespace(name=name, create=name in seen.creates_in) for name in seen.names],
        allNamespaces=seen.everywhere,
        namespacesComplete=seen.complete,
        defaultNamespace=_default(who.identity, seen.names),
    )


def _default(identity: Identity, names: tuple[str, ...]) -> str:
    own = identity.client.namespace
    return own if own in names or not names else names[0]
