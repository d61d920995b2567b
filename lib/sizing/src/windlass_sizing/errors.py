"""What can go wrong while sizing.

SizingError
├── FactsError       config.json does not say enough (`.missing` names the keys), or what no model has (`.reason`)
├── CheckpointError  a checkpoint directory cannot be served (`.reason` is one word)
└── SettingsError    a flag, a variable or a combination of them is wrong
"""

from __future__ import annotations


class SizingError(Exception):
    """Anything this package refuses, with a sentence for the user."""


class FactsError(SizingError):
    """config.json lacks what the formula needs, or holds what no model has (`reason` ConfigImplausible)."""

    def __init__(self, message: str, missing: tuple[str, ...] = (), reason: str = "ConfigBroken") -> None:
        super().__init__(message)
        self.missing = missing
        self.reason = reason


class CheckpointError(SizingError):
    """The model directory is wrong; `reason` is a word out of a closed list, the text says what is there instead."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SettingsError(SizingError):
    """A flag, a variable or a combination of them is wrong; the server's command ends with the sentence."""
