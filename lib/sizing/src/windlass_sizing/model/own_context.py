"""The model's own context, as the engine derives it from a configuration and refuses more.

The rule is vLLM 0.32's `_get_and_verify_max_len` with `derive_max_model_len_and_key`, for a user's flag that is set:
`tests/engine/models/test_context_lengths.py` holds the two to each other. Pure; `facts.py` calls it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_sizing.model.keys import SPELLINGS
from windlass_sizing.model.settings import Settings, is_number

ENGINE_DEFAULT = 2048
"""Tokens that the engine takes where no key names a length; it then takes any --max-model-len."""
WINS = "model_max_length"
"""Taken instead of all others wherever it is set."""
SCALED_ALREADY = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling", "telechat3-yarn")
"""Kinds of rotary scaling whose file gives the length after scaling; the factor of every other kind stretches it."""
SCALED_FAMILY = "gemma3"
"""In the `model_type` of a family that gives its length after scaling, whatever the kind."""


@dataclass(frozen=True, slots=True)
class OwnContext:
    """The longest context of a model; `is_open` where the engine knows none and takes any."""

    tokens: int
    is_open: bool = False


def own_context(text: Settings) -> OwnContext:
    """The context of a language model's settings."""
    own = Settings(text.model_type, text.given, text.defaults)
    lengths = [value for name in SPELLINGS["max_model_len"] if (value := own.number(name)) and value > 0]
    if not lengths:
        return OwnContext(ENGINE_DEFAULT, is_open=True)
    length = own.number(WINS) or min(lengths)
    return OwnContext(int(length * (1 if SCALED_FAMILY in text.model_type else _factor(own))))


def _factor(own: Settings) -> float:
    factor: float = 1.0
    for scaling in _scalings(own.get("rope_scaling") or own.get("rope_parameters")):
        if scaling.get("rope_type", scaling.get("type")) not in SCALED_ALREADY:
            stretch = scaling.get("factor", factor)
            factor = stretch if is_number(stretch) or isinstance(stretch, float) else 1.0
    return factor


def _scalings(settings: object) -> Iterator[Mapping[str, Any]]:
    """The settings of rotary scaling: one for all layers, or one for each type of layer."""
    if not isinstance(settings, Mapping):
        return
    yield from [one for one in settings.values() if isinstance(one, Mapping)] or [settings]
