"""Who asks, and the names in addresses: what every route of the API takes."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Body, Depends, Header, Path, Query, Request, Response

from windlass_console.errors import SignInError
from windlass_console.http.pages import Page
from windlass_console.identity.pool import Identities, Identity
from windlass_console.identity.seal import Seal
from windlass_console.identity.token import expiry_of, usable
from windlass_console.settings import Settings

BY_COOKIE, BY_HEADER = "cookie", "header"
NAME_PATTERN = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
NAMESPACE_PATTERN = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


@dataclass(frozen=True, slots=True)
class Console:
    """What the process serves with."""

    settings: Settings
    seal: Seal
    identities: Identities
    pages: dict[str, Page]


@dataclass(frozen=True, slots=True)
class Asking:
    """A signed-in user; `until` is when the session ends, None when it is not known."""

    identity: Identity
    token: str
    via: str
    until: int | None


def the_console(request: Request) -> Console:
    """The process' own."""
    found: Console = request.app.state.console
    return found


async def asking(
    request: Request, response: Response, console: Annotated[Console, Depends(the_console)]
) -> AsyncIterator[Asking]:
    """The user by the header of an ingress that signs in, else by the cookie; SignInError without either.

    The header is of this request, the cookie perhaps of an earlier user of the browser: it goes where it differs.
    """
    cookie = request.cookies.get(console.settings.cookie_name, "")
    opened = console.seal.open(cookie, time.time())
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    via = BY_HEADER if scheme.lower() == "bearer" and given else BY_COOKIE
    if via == BY_HEADER:
        token, until = usable(given), expiry_of(given.strip())
        if cookie and (opened is None or opened[0] != token):
            take_back(response, console.settings)
    elif opened is not None:
        token, until = opened
    else:
        raise SignInError("you are not signed in, or your session has ended; sign in with a token of the cluster")
    async with console.identities.asked(token) as identity:
        yield Asking(identity, token, via, until)


def take_back(response: Response, settings: Settings) -> None:
    """Have the browser forget the cookie."""
    response.delete_cookie(
        settings.cookie_name,
        path=settings.cookie_path,
        secure=settings.secure_cookie,
        httponly=True,
        samesite="strict",
    )


Who = Annotated[Asking, Depends(asking)]
The = Annotated[Console, Depends(the_console)]
Namespace = Annotated[str, Path(pattern=NAMESPACE_PATTERN)]
Name = Annotated[str, Path(pattern=NAME_PATTERN)]
InNamespace = Annotated[str, Query(alias="namespace", pattern=NAMESPACE_PATTERN)]
Everywhere = Annotated[str, Query(alias="namespace", pattern=rf"{NAMESPACE_PATTERN}|^\*$")]
Document = Annotated[dict[str, Any], Body()]
DryRun = Annotated[bool, Query(alias="dryRun")]
ServiceKey = Annotated[str, Header(alias="X-Service-Key", max_length=512, pattern=r"^[!-~]*$")]
