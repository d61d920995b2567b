"""Who may upload and read the audit log: whoever has the admin token, when one is set."""

import hmac
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.exceptions import HTTPException

PROXIED = "x-windlass-admin-token"
"""The header of a caller behind the API server's proxy, which keeps Authorization to itself."""
Check = Callable[[Request], Awaitable[None]]


def presented(request: Request) -> tuple[str, str]:
    """Scheme and token, by either header; both empty without one."""
    if "authorization" not in request.headers and PROXIED in request.headers:
        return "bearer", request.headers[PROXIED]
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme, given


def admin_only(token: str | None) -> Check:
    """A dependency that ends in 401 without the right token; without a token set it lets everybody in."""

    async def check(request: Request) -> None:
        if token is None:
            return
        scheme, given = presented(request)
        right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
        if scheme.lower() != "bearer" or not right:
            wrong = "the admin token is wrong" if given else "an admin token is needed"
            detail = f'{wrong}; send the header "Authorization: Bearer <token>" or "X-Windlass-Admin-Token: <token>"'
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    return check
