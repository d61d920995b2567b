"""The values that a launch is decided from and into: the model's files, the machine, and the plan. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.launch.values import Value

FROM_FILE = "ti_model_config.json"
MATCH = "match"
DEFAULT = "default"
"""Sources of a setting beside its flag and its variables."""


ENGINE_PORT = 8000


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What the model directory says; `None` where it says nothing."""

    path: str
    model_type: str = ""
    max_model_len: int | None = None
    quantization: str | None = None
    attention_heads: int | None = None
    model_id: str | None = None
    """From `ti_model_config.json`, as the next."""
    conv_template: str | None = None
    architecture: str = ""
    has_chat_template: bool = False
    vocab_size: int | None = None
    generation: Mapping[str, object] = field(default_factory=dict)
    """What the engine takes for the model's generation_config.json."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of this container."""

    uuid: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where the engine will run. On `cpu` the GPUs, when there are any, are licensed but not computed on."""

    engine: str  # cuda | cpu
    gpus: tuple[Gpu, ...] = ()
    has_compiler: bool = True


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


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that must be there when the engine starts."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How the engine is started, and everything worth telling about it."""

    settings: tuple[Setting, ...]
    engine_args: tuple[str, ...]
    shown_args: tuple[str, ...]
    """The same without secrets: for logs, facts and people."""
    warnings: tuple[str, ...]
    files: tuple[PlannedFile, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the engine's process gets beside our own environment; it may hold keys."""

    def value(self, name: str) -> Value | None:
        """The value of a row, None when it has none."""
        return next((setting.value for setting in self.settings if setting.name == name), None)

    @property
    def port(self) -> int:
        """The API's port; the engine's own commands leave it to the engine."""
        return int(str(self.value("port") or ENGINE_PORT))

    @property
    def model_path(self) -> str:
        """The model directory."""
        return str(self.value("model"))
