"""Every error that ends a `windlass` command, split by what its reader must do.

    WindlassError              a sentence for a person; never a traceback
    ├── UsageError             exit 2: a flag, variable or combination of them is wrong; the sentence says what to do
    ├── ModelError             exit 3: the model directory is not there or cannot be served, or fits nowhere
    │   └── ChatTemplateError  its chat template cannot be rendered
    ├── LicenseError           exit 4: the license server refused, or was out of reach for too long
    ├── EngineError            the engine's own exit code: it ended by itself
    │   ├── EngineStalledError  exit 9: the engine holds requests and ended no step for too long
    │   ├── StartTimeoutError  exit 5: the engine neither answered nor said anything new for too long
    │   └── FirstChatError     exit 8: the engine is up and does not answer the first chat
    ├── GroupError             this machine is a member of a group, and the group cannot serve
    │   ├── GroupIncompleteError  exit 6: members did not come in time
    │   ├── RayError           exit 7: this member's part of the Ray cluster did not start, or ended
    │   └── MemberLostError    exit 100 + the index of the member that went
    └── ServerError            exit 1: a server that `windlass chat` talks to refused or was out of reach

The exit code and the reason go into the container's termination message, where the operator reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from windlass_sizing.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One row of the exit codes of all commands; `last` ends a range."""

    code: int
    meaning: str
    last: int | None = None


EXIT_CODES = (
    ExitCode(0, "done; `doctor`: no check failed"),
    ExitCode(
        1, "a server that was asked refuses or is out of reach; `doctor`: a check failed; `run`: the engine's own"
    ),
    ExitCode(2, "a flag, a variable or another word of the command line is wrong"),
    ExitCode(3, "the model directory is not there or cannot be served; `plan`: the model fits none of the cards"),
    ExitCode(4, "the license server refused, or was out of reach for too long"),
    ExitCode(5, "the engine neither answered nor said anything new for too long"),
    ExitCode(6, "members of the group did not come in time"),
    ExitCode(7, "this member's part of the Ray cluster did not start, or ended"),
    ExitCode(8, "the engine is up and does not answer the first chat, so the server never becomes ready"),
    ExitCode(9, "the engine held requests and ended no step for too long"),
    ExitCode(100, "another member of the group went: 100 + its index", 127),
    ExitCode(130, "interrupted"),
)
"""What every command of `windlass` and `windlass-deepspeed` ends with; an engine that ended by itself has its own."""


class WindlassError(Exception):
    """Base of all; `reason` is one word that programs compare."""

    reason: ClassVar[str] = "Failed"
    exit_code: int = 1


class UsageError(WindlassError):
    """A flag, a variable or a combination of them is wrong."""

    reason = "BadFlag"
    exit_code = 2


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise a refusal of the settings as the UsageError that ends a command."""
    try:
        yield
    except SettingsError as error:
        raise UsageError(str(error)) from error


class ModelError(WindlassError):
    """The model directory is not there or cannot be served."""

    reason = "ModelMissing"
    exit_code = 3


class ChatTemplateError(ModelError):
    """The chat template cannot be compiled or rendered."""

    reason = "ChatTemplateBroken"


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


class StartTimeoutError(EngineError):
    """The engine neither answered nor said anything new for too long."""

    reason = "StartTimeout"
    exit_code = 5

    def __init__(self, message: str) -> None:
        super().__init__(message, type(self).exit_code)


class FirstChatError(EngineError):
    """The engine is up, and its answer to the first chat is an error."""

    reason = "FirstChatFailed"
    exit_code = 8

    def __init__(self, message: str) -> None:
        super().__init__(message, type(self).exit_code)


class EngineStalledError(EngineError):
    """The engine holds requests, and no step of it ended for too long."""

    reason = "EngineStalled"
    exit_code = 9

    def __init__(self, message: str) -> None:
        super().__init__(message, type(self).exit_code)


class GroupError(WindlassError):
    """The group that this machine is a member of cannot serve; `members` are the indices of those that failed."""

    def __init__(self, message: str, members: tuple[int, ...]) -> None:
        super().__init__(message)
        self.members = members


class GroupIncompleteError(GroupError):
    """Members did not come in time."""

    reason = "GroupIncomplete"
    exit_code = 6


class RayError(GroupError):
    """This member's part of the Ray cluster did not start, or ended."""

    reason = "RayFailed"
    exit_code = 7


class MemberLostError(GroupError):
    """Another member went, and the group ends as one; the exit code tells which."""

    reason = "MemberLost"
    first_code: ClassVar[int] = 100
    index_max: ClassVar[int] = 27
    """Codes from 128 on mean a signal."""

    def __init__(self, message: str, member: int) -> None:
        super().__init__(message, (member,))
        self.exit_code = self.first_code + min(member, self.index_max)


class ServerError(WindlassError):
    """A server that a client command talks to refused or was out of reach."""

    reason = "ServerFailed"
