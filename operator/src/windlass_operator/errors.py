"""What can go wrong in the operator, split by what the caller must do.

OperatorError
├── SettingsError   the operator's own environment is wrong: say one sentence and exit 2
├── Unavailable     the API server does not answer: back off, more each time
├── Retry           try again after `after_s` seconds; nobody is at fault
└── UserError       only the user can change it: becomes a condition with `reason`, no fast retry
    ├── InvalidError     the API server finds the object wrong as it would become
    └── NotServedError   the cluster does not know the object's kind
"""

from __future__ import annotations


class OperatorError(Exception):
    """Anything the operator raises on purpose."""


class SettingsError(OperatorError):
    """A setting of the operator itself cannot be used; the text names the variable and what it accepts."""


class Unavailable(OperatorError):  # noqa: N818 - a state, not an error
    """The API server does not answer; what was asked may or may not have happened."""


class Retry(OperatorError):  # noqa: N818 - a wish, not an error
    """Not now, but later: the queue brings the key back after `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class UserError(OperatorError):
    """What the user asked for cannot be done; `reason` is a word of status/reasons.py."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class InvalidError(UserError):
    """The API server finds the object invalid: what we asked for, or that together with what others own in it."""


class NotServedError(UserError):
    """The API server has no such kind: the CRD that brings it is not installed."""
