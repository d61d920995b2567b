"""Step 6: the size of a body, announced and read, and the memory that bodies of a key hold."""

from __future__ import annotations

from windlass.api.steps.request import Request
from windlass.front.budget import Budget
from windlass.front.intake import SMALL_BYTES, Hold, Intake
from windlass.front.keys import KeyRing
from windlass.front.settings import ApiSettings


class SizeCheck:
    """Opens the intake of a body; refuses one that is announced to be too large (413)."""

    def __init__(self, settings: ApiSettings, budget: Budget, keys: KeyRing) -> None:
        """`budget` bounds the bodies of all requests; several keys share it."""
        self._limit_bytes, self._budget, self._keys = settings.max_body_bytes, budget, keys

    def __call__(self, request: Request) -> Intake:
        """The intake, which holds nothing yet; its caller releases it."""
        route = request.route
        limit = self._limit_bytes if route.json or route.is_upload else SMALL_BYTES
        hold = Hold(self._budget, request.key.id, shared=self._keys.several)
        return Intake(request.scope, request.receive, limit, hold)
