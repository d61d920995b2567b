"""Windlass. `from windlass import LLM, SamplingParams` is the offline API, loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass import former_names

if TYPE_CHECKING:
    from windlass.offline import LLM, SamplingParams

__all__ = ["LLM", "SamplingParams"]

former_names.install()


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from windlass import offline

    return getattr(offline, name)
