"""What can go wrong in a download, split by what the Job does next.

DownloadError
├── Retry       the same may go well later: the Job starts its next pod
└── UserError   only a change helps: `reason` is a word that the operator's table of findings has
"""

from __future__ import annotations


class DownloadError(Exception):
    """Anything that the download raises on purpose."""


class Retry(DownloadError):  # noqa: N818 - a wish, not an error
    """Not now, but later; `after_s` are the seconds until then."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class UserError(DownloadError):
    """What was asked for cannot be done; `reason` is a word of the operator's `status/reasons.py`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
