"""What the engine's processes must know of the lookahead cache: one JSON variable. Pure; imports no engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

VARIABLE = "WINDLASS_LOOKAHEAD"
MEMORY_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class LookaheadSettings:
    """As the start command says; directories may be empty for none."""

    config_dir: str = ""
    """Directory of `lookahead_cache_config.json`."""
    memory_share: float = MEMORY_SHARE
    """Of the host's memory, for the shared caches of all workers together."""
    workers: int = 1
    ignore_prompt: bool = False
    cache_dir: str = ""
    """Where the shared cache survives restarts."""
    counts_dir: str = ""
    """Where each engine leaves its counts for the API's process."""
    has_cache: bool = True
    """Whether text is kept for later requests; without it a request's drafts come from its own text."""
    draft_model: str = ""
    """Directory of a model that drafts on the host's cores."""
    draft_bits: int = 8
    """Of each of its weights: 8 or 4."""
    draft_rows: int = 0
    """Requests of one engine at most, by the start command; 0: it does not say."""
    draft_threads: int = 0
    """Cores of one engine that draft; 0: its share of all but two."""

    def to_json(self) -> str:
        """As the variable has it."""
        return json.dumps(asdict(self))


def read(environment: Mapping[str, str]) -> LookaheadSettings | None:
    """The settings of this process, None where lookahead is off."""
    text = environment.get(VARIABLE)
    if not text:
        return None
    known = {field.name for field in fields(LookaheadSettings)}
    return LookaheadSettings(**{name: value for name, value in json.loads(text).items() if name in known})
