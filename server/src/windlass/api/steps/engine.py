"""Step 9: the engine's own application, the count of its tokens, and the shape of its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from windlass.api import names, remedies, shortcut
from windlass.api.body import Body
from windlass.api.remedies import ErrorContext
from windlass.api.routes import Access
from windlass.api.steps.request import Request
from windlass.front.asgi import Application, Scope, replay, with_body
from windlass.front.settings import ApiSettings


class Engine:
    """Passes a request to the engine; its failures on the client's fault become refusals (400)."""

    def __init__(self, app: Application, settings: ApiSettings) -> None:
        """Streams take the long path until the application is whole (`is_direct`)."""
        self._app, self._settings = app, settings
        self.is_direct = False
        """Whether chunks of a stream go past middleware that reads headers alone."""

    async def plain(self, request: Request) -> None:
        """Answer a request without a body; an open route keeps the engine's own errors."""
        if request.route.access is not Access.OPEN:
            request.answer.reshape = partial(self._reshape, request.scope, request.error_context())
        await self._app(request.scope, request.receive, request.answer)

    async def __call__(self, request: Request, body: Body, leave: Callable[[], None]) -> None:
        """Answer a request with its body; `leave` gives its place back when the client goes away."""
        answer, account, context = request.answer, request.account, request.error_context(body)
        answer.reshape = partial(self._reshape, request.scope, context)
        scope, meter = with_body(request.scope, body.raw), None
        if account:
            model = body.model or next(iter(self._settings.served_names), "")
            meter = account.watch(answer, model, body_bytes=len(body.raw), hides_usage=body.hides_usage)
            if self.is_direct:
                scope = shortcut.with_direct_sender(scope, shortcut.direct_sender(meter, answer))
        try:
            await self._app(scope, replay(body.raw, request.receive, leave), meter or answer)
        except Exception as error:
            refusal = remedies.refusal(context, error)
            if refusal is None or answer.started:
                raise
            raise refusal from error

    def _reshape(self, scope: Scope, context: ErrorContext, status: int, content: bytes) -> tuple[int, bytes]:
        known, model = names.served(self._settings, scope.get("app")), context.body.model
        if status == 404 and not context.route.gives and model and known and model not in known:
            return status, names.unknown(model, known).body
        return remedies.mended(context, status, content)
