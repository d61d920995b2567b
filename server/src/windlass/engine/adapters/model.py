"""The values that adapters are decided from and into. No behaviour beyond what a value says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from windlass_sizing.settings.lora_modules import Given

FOUND = "model directory"
"""Origin of an adapter that nobody named."""
ONLY = "true"
"""Said in place of a name: the one adapter that there is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What must be known before the directories are read."""

    model: str
    base: str = ""
    given: tuple[Given, ...] = ()
    origin: str = ""
    """Where `given` was said."""
    merge: str = ""
    """Name of the adapter to merge, `true` for the only one, empty for none."""
    discovers: bool = True
    """Whether adapters that nobody named count."""
    draft: str = ""
    """Directory of a draft model or of a head that drafts."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter as its directory shows it."""

    name: str
    path: str
    origin: str
    rank: int = 0
    """The largest of its ranks."""
    problem: str = ""
    """Why the engine would refuse it by name; empty when it would not."""
    merge_problem: str = ""
    """Why it cannot be merged."""
    ignored: str = ""
    """Tensors that the engine leaves alone on this base, where it is served by name."""
    digest: str = ""
    """Of its bytes; only for an adapter that may be merged."""
    given: Given | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """What tells one weight file of the base from another, without reading it."""

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Adapters:
    """Everything found on disk."""

    own: Adapter | None = None
    """The model directory itself, when it is an adapter and its base lies elsewhere."""
    found: tuple[Adapter, ...] = ()
    given: tuple[Adapter, ...] = ()
    shards: tuple[Shard, ...] = ()
    """Of the base; only when something is to be merged."""
    chat_template: str = ""
    """A chat template that was saved beside the model directory's own adapter."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Want:
    """What the settings say about adapters."""

    served: tuple[str, ...]
    """Names of the model, as requests use them."""
    base: str
    """Directory of the base's weights."""
    merge: str = ""
    enabled: bool | None = None
    """What --enable-lora says, None when nobody said it."""
    max_rank: int | None = None
    quantization: str | None = None
    """Of the base's weights as they lie there."""
    cache: str = ""


@dataclass(frozen=True, slots=True)
class Merge:
    """A checkpoint that must be there when the engine starts."""

    base: str
    adapter: Adapter
    shards: tuple[Shard, ...]
    target: str
    """Directory, named by what goes into it."""


@dataclass(frozen=True, slots=True)
class AdapterPlan:
    """What the engine is started with."""

    served: tuple[Adapter, ...] = ()
    """By name, each once for every name."""
    base_names: tuple[str, ...] = ()
    """Names of the model without adapters, when they differ from what was asked for."""
    lead: tuple[str, ...] = ()
    """Adapters that are meant when a request names none."""
    rank: int = 0
    merge: Merge | None = None
    notes: tuple[str, ...] = ()
