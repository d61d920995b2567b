"""The errors of this server: those of the vLLM image's, which end a command, and one that is answered to a client.

WindlassError              a sentence for a person; never a traceback
├── UsageError             exit 2: a flag or variable is wrong
├── ModelError             exit 3: the model directory is not there or cannot be served
└── RequestError           an HTTP status: the client's request is wrong, or the engine is gone
"""

from __future__ import annotations

from windlass.errors import ModelError, UsageError, WindlassError

__all__ = ["ModelError", "RequestError", "UsageError", "WindlassError"]


class RequestError(WindlassError):
    """A request that is answered with an error: its status, and the field that is wrong."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
