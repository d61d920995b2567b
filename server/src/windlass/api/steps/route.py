"""Step 4: whether the path is there, takes the method, and is open to the key."""

from __future__ import annotations

from windlass.api.steps.request import Request
from windlass.front.asgi import has_body
from windlass.front.refusal import Refusal


def check_route(request: Request) -> None:
    """Refuse an unknown or closed path, a method that it does not take, and a body that hides its model."""
    row, rows, path = request.row, request.rows, request.path
    if rows is None:
        raise Refusal(404, f"there is no {request.method} {path[:100]} here; GET /docs lists what there is")
    if rows.is_closed:
        raise Refusal(403, f"{path} is closed: it controls the engine; the settings of the server may open it")
    if row is None and not request.is_preflight:
        message = f"{path} does not take {request.method}; the header Allow names what it takes"
        raise Refusal(405, message, headers=(("allow", ", ".join(rows.methods)),))
    if request.key.models and row and not row.json and has_body(request.scope["headers"]):
        raise Refusal(403, f"this API key names its models, which the body of {path} does not show; use another key")
