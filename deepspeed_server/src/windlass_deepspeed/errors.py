"""Every error, split by what its reader must do.

DeepSpeedServerError       a sentence for a person; never a traceback
├── UsageError             exit 2: a flag or variable is wrong
├── ModelError             exit 3: the model directory is not there or cannot be served
└── RequestError           an HTTP status: the client's request is wrong, or the engine is gone
"""

from __future__ import annotations


class DeepSpeedServerError(Exception):
    """Base of all; `exit_code` is the process's."""

    exit_code = 1


class UsageError(DeepSpeedServerError):
    """A flag or variable is wrong."""

    exit_code = 2


class ModelError(DeepSpeedServerError):
    """The model directory is not there or cannot be served."""

    exit_code = 3


class RequestError(DeepSpeedServerError):
    """A request that is answered with an error: its status, and the field that is wrong."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
