"""Value type of a resolved setting, and the names of its sources."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.settings.values import Value

FLAG = "flag"
FIELD = "field"
FROM_FILE = "ti_model_config.json"
MATCH = "match"
CHECKPOINT = "checkpoint"
PLAN = "plan"
DEFAULT = "default"
"""Sources of a setting; a variable's is "variable NAME"."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Resolved row: its value, its source, and a reason where the source does not explain it."""

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
