"""One resolved setting, and the names of what it may come from. No behaviour beyond how a person sees it."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.settings.values import Value

FLAG = "flag"
FIELD = "field"
FROM_FILE = "ti_model_config.json"
MATCH = "match"
CHECKPOINT = "checkpoint"
DEFAULT = "default"
"""Sources of a setting; a variable's is "variable NAME"."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One resolved row: its value, where it came from, and why when that is not plain."""

    name: str
    value: Value
    source: str
    why: str = ""
    secret: bool = False

    @property
    def shown(self) -> str:
        """The value as a person may see it."""
        if self.secret:
            return "(hidden)"
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return ", ".join(self.value) if isinstance(self.value, tuple) else str(self.value)
