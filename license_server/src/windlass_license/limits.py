"""Bound what anyone in the cluster can make the server read. The license upload has a bound of its own."""

from fastapi.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX_BYTES = 256 * 1024
_OWN_BOUND = "/ls"


class BodyLimit:
    """ASGI middleware: a larger body ends in 413 while it is read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a receive that counts."""
        if scope["type"] != "http" or scope["path"] == _OWN_BOUND:
            await self._app(scope, receive, send)
            return
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_MAX_BYTES:
                raise HTTPException(413, f"the request is larger than {BODY_MAX_BYTES // 1024} KiB")
            return message

        await self._app(scope, counted, send)
