"""Step 1 and 2: the path, made plain and looked up, and the host that a request names."""

from __future__ import annotations

from windlass.api import routes
from windlass.api.steps.request import Request
from windlass.front import paths
from windlass.front.asgi import REQUEST_ID, Answer, Receive, Scope, header, replaced
from windlass.front.settings import ApiSettings


class PathReader:
    """Reads a request's path; refuses one that two programs may read differently."""

    def __init__(self, settings: ApiSettings) -> None:
        """Take the opened routes, and whether metrics need a key."""
        self._opened, self._metrics_closed = settings.opened_routes, settings.metrics_closed

    def __call__(self, scope: Scope, receive: Receive, answer: Answer, id_: str) -> Request:
        """The request with a tidy path, its rows, and the id that the engine logs too."""
        raw_path = scope.get("raw_path") or b""
        paths.check(scope["path"], raw_path)
        headers = replaced(scope["headers"], (REQUEST_ID, id_.encode()), drop=(REQUEST_ID,))
        tidied = {**scope, "path": paths.tidy(scope["path"]), "headers": headers}
        if raw_path:
            tidied["raw_path"] = paths.tidy(raw_path.decode("latin-1")).encode("latin-1")
        path = routes.route_path(tidied)
        rows = routes.find(path, self._opened)
        row = rows.row(str(scope["method"])) if rows else None
        is_open = row is not None and routes.is_open(row, metrics_closed=self._metrics_closed)
        return Request(tidied, receive, answer, path, rows, row, is_open)


class HostCheck:
    """Refuses a request for another host (421)."""

    def __init__(self, settings: ApiSettings) -> None:
        """Take the allowed hosts; none allows all."""
        self._allowed = settings.allowed_hosts

    def __call__(self, request: Request) -> None:
        """Compare the header Host."""
        paths.check_host(header(request.scope["headers"], b"host"), self._allowed)
