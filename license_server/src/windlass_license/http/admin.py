"""Who may upload and read the audit log: whoever has the admin token, when one is set."""

import hmac
from collections.abc import Awaitable, Callable

from fastapi import Request
from fastapi.exceptions import HTTPException

Check = Callable[[Request], Awaitable[None]]


def admin_only(token: str | None) -> Check:
    """A dependency that ends in 401 without the right token; without a token set it lets everybody in."""

    async def check(request: Request) -> None:
        if token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
        if scheme.lower() != "bearer" or not right:
            wrong = "the admin token is wrong" if given else "an admin token is needed"
            detail = f'{wrong}; send the header "Authorization: Bearer <token>"'
            raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    return check
