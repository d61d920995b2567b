"""Step 3: the API key of a request."""

from __future__ import annotations

from windlass.api.steps.request import Request
from windlass.front.asgi import credential
from windlass.front.keys import KeyRing


class KeyCheck:
    """Finds the key of a request; refuses one without a right key (401)."""

    def __init__(self, keys: KeyRing) -> None:
        """`keys` are all keys of this server."""
        self._keys = keys

    def __call__(self, request: Request) -> None:
        """Note the key in the request."""
        if not request.is_preflight:
            request.key = self._keys.find(credential(request.scope["headers"]))
