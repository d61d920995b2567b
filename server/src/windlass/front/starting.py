"""Holds the probes' answer back until the server has answered its own first chat.

The supervisor makes a key for one start and gives it to the engine's process alone. With that key it asks the API
without a key of the user's and without a place in the queue, and in the end says that the start is over: from then on
the key opens nothing. Knows no engine and no setting.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from windlass.front.asgi import header
from windlass.front.refusal import Refusal

KEY_VARIABLE = "WINDLASS_START_KEY"
HEADER = "x-windlass-start"
OVER_PATH = "/windlass/started"
"""A POST with the key ends the start; without the key there is no such path."""
PROBES = ("/health", "/ping")


class Start:
    """The start of one server; without a key it is over from the beginning."""

    def __init__(self, key: str) -> None:
        """`key` is the supervisor's."""
        self._key = key.encode()

    @property
    def is_over(self) -> bool:
        """Whether the server has answered its own first chat."""
        return not self._key

    def has_key(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the supervisor asks; nobody does once the start is over."""
        return bool(self._key) and hmac.compare_digest(header(headers, HEADER.encode()), self._key)

    def end(self) -> None:
        """Forget the key: probes are answered by the engine from now on."""
        self._key = b""

    def refusal(self) -> Refusal | None:
        """What a probe hears before the start is over; the supervisor hears the engine."""
        if self.is_over:
            return None
        headers = (("retry-after", "1"),)
        return Refusal(503, "the server has not answered its own first chat yet; ask again", headers=headers)
