"""How a context length is written: 8192, 8k for 8,000, 8K for 8,192; `auto` and `-1` leave it to the engine.

The server reads its flag and its variable by this, and the plan reads the same words before a GPU is taken. Pure.
"""

from __future__ import annotations

import re

LONGER_IS_WANTED, OVERRIDES = "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "--hf-overrides"
"""The engine's variable, as 1, and its flag by which a context may be above the model's own."""

ENGINE_DECIDES = ("auto", "-1")
"""The engine then takes the longest context that its memory holds."""
UNITS = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}


def tokens_of(text: str) -> int | None:
    """The tokens that a text says; None for 0, and for a text that says no number."""
    found = re.fullmatch(r"(\d{1,12})([kKmM]?)", text)
    return int(found[1]) * UNITS[found[2]] or None if found else None
