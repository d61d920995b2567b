"""Products as torch.compile's graphs see them: one opaque node each, `windlass::NAME`.

Defined by hand: torch.library.custom_op puts Python of its own in front of every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

LIBRARY = torch.library.Library("windlass", "FRAGMENT")
"""An operator is there as long as this is."""


def define(name: str, run: Callable[..., Any], shape: Callable[..., Any]) -> None:
    """An operator with the annotations of `run`, which is what it does on a GPU; `shape` makes what it would return."""
    LIBRARY.define(f"{name}{torch.library.infer_schema(run, mutates_args=())}")
    LIBRARY.impl(name, run, "CUDA")
    torch.library.register_fake(f"windlass::{name}", shape, lib=LIBRARY)
