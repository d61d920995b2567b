"""What the decisions of a launch look at: resolved settings, machine, model, and the command line as it was typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass_sizing.model.draft_words import Requested
from windlass_sizing.settings.setting import Setting
from windlass_sizing.settings.values import Value

from windlass.launch.model import Machine, ModelFiles

Settings = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class LaunchInputs:
    """Everything that a decision on one of the engine's features reads."""

    settings: Settings
    machine: Machine
    model: ModelFiles
    words: Sequence[str]
    environment: Mapping[str, str]
    on_host: Requested | None = None
    """What drafts on the host's cores; its words are not among those of the command line."""

    def value(self, name: str) -> Value | None:
        """Return the value of a setting, None when nobody says one."""
        setting = self.settings.get(name)
        return setting.value if setting else None

    def whole(self, name: str, default: int) -> int:
        """Return the same as a whole number."""
        value = self.value(name)
        return default if value is None else int(str(value))
