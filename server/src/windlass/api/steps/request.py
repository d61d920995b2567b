"""HTTP request on its way in: each step reads what the steps before it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windlass.api.body import EMPTY, Body
from windlass.api.remedies import ErrorContext
from windlass.api.routes import Route, Rows
from windlass.front.asgi import Answer, Receive, Scope, has_body, header
from windlass.front.key_document import Key
from windlass.front.keys import NOBODY
from windlass.front.usage.account import Account

NO_ROUTE = Route("", json=False, gated=False)


@dataclass(slots=True)
class Request:
    """The connection of a request, and the findings of the steps."""

    scope: Scope
    receive: Receive
    answer: Answer
    path: str
    rows: Rows | None
    """The rows of its path; None when the path has none."""
    row: Route | None
    """The row of its path and method."""
    is_open: bool
    """Answered without a key."""
    is_ours: bool = False
    """The supervisor sends it while the server starts."""
    key: Key = NOBODY
    account: Account | None = None
    """Its share of the key's limits; None for a request that occupies no engine."""

    @property
    def method(self) -> str:
        """The HTTP method."""
        return str(self.scope["method"])

    @property
    def route(self) -> Route:
        """The row; a plain one when there is none."""
        return self.row or NO_ROUTE

    @property
    def is_preflight(self) -> bool:
        """Tell a browser's question, sent without the key, whether it may send the key."""
        if self.method != "OPTIONS":
            return False
        headers = self.scope["headers"]
        return bool(header(headers, b"origin") and header(headers, b"access-control-request-method"))

    @property
    def is_counted(self) -> bool:
        """Tell a request that takes a place and counts against the limits of its key."""
        return self.route.gated and not self.is_ours

    @property
    def has_body(self) -> bool:
        """Tell a request whose body the engine reads."""
        return self.route.json or has_body(self.scope["headers"])

    def error_context(self, body: Body = EMPTY) -> ErrorContext:
        """Request parts that an error answer quotes."""
        return ErrorContext(self.method, self.path, self.route, body)


class Check(Protocol):
    """A step that needs no waiting: refuses a request or lets it pass."""

    def __call__(self, request: Request) -> None:
        """Raise the refusal of a request."""
