"""What can go wrong while sizing.

SizingError
├── FactsError       config.json does not say enough (`.missing` names the keys)
└── CheckpointError  a checkpoint directory cannot be served (`.reason` is one word)
"""

from __future__ import annotations


class SizingError(Exception):
    """Anything this package refuses, with a sentence for the user."""


class FactsError(SizingError):
    """config.json lacks what the formula needs."""

    def __init__(self, message: str, missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing = missing


class CheckpointError(SizingError):
    """The model directory is wrong; `reason` is a word out of a closed list, the text says what is there instead."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
