"""Every error that ends a `windlass` command, split by what its reader must do.

    WindlassError              a sentence for a person; never a traceback
    ├── UsageError             exit 2: a flag, variable or combination of them is wrong; the sentence says what to do
    ├── ModelError             exit 3: the model directory is not there or cannot be served
    ├── LicenseError           exit 4: the license server refused, or was out of reach for too long
    ├── EngineError            the engine's own exit code: it ended by itself
    └── ServerError            exit 1: a server that `windlass chat` talks to refused or was out of reach

The exit code and the reason go into the container's termination message, where the operator reads them.
"""

from __future__ import annotations

from typing import ClassVar


class WindlassError(Exception):
    """Base of all; `reason` is one word that programs compare."""

    reason: ClassVar[str] = "Failed"
    exit_code: int = 1


class UsageError(WindlassError):
    """A flag, a variable or a combination of them is wrong."""

    reason = "BadFlag"
    exit_code = 2


class ModelError(WindlassError):
    """The model directory is not there or cannot be served."""

    reason = "ModelMissing"
    exit_code = 3


class LicenseError(WindlassError):
    """The license server refused, or could not be reached for too long."""

    reason = "LicenseRefused"
    exit_code = 4


class EngineError(WindlassError):
    """The engine ended by itself; the exit code is its own."""

    reason = "EngineFailed"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ServerError(WindlassError):
    """A server that a client command talks to refused or was out of reach."""

    reason = "ServerFailed"
