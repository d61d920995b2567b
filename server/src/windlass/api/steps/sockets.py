"""Websockets: path, host, key and route are checked as a request's are; a key with limits is refused."""

from __future__ import annotations

from windlass.api import routes
from windlass.api.routes import Access
from windlass.api.steps.state import State
from windlass.front import paths
from windlass.front.asgi import Application, Receive, Scope, Send, credential, header
from windlass.front.refusal import Refusal

POLICY_VIOLATION = 1008


class Sockets:
    """Passes allowed websockets to the engine, and counts the open ones."""

    def __init__(self, app: Application, state: State) -> None:
        """None is open."""
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one websocket to its end."""
        try:
            self._check(scope)
        except Refusal as refusal:
            self._state.refused[refusal.status] += 1
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": refusal.message})
            return
        self._state.open_sockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._state.open_sockets -= 1

    def _check(self, scope: Scope) -> None:
        paths.check(scope["path"], scope.get("raw_path") or b"")
        paths.check_host(header(scope["headers"], b"host"), self._state.settings.allowed_hosts)
        key = self._state.keys.find(credential(scope["headers"]))
        if routes.SOCKETS.get(routes.route_path(scope)) is not Access.KEY:
            raise Refusal(404, "there is no websocket at this path")
        if key.models or key.limits.any:
            raise Refusal(403, "this API key has limits, which a websocket does not hold; use HTTP")
