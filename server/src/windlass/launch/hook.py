"""Makes `python3 -m vllm.entrypoints.openai.api_server` ours. The only place where the engine is wrapped from outside.

The image's `windlass.pth` lets every Python look for that module's name in its own command line as it starts, before
anything is imported, and calls `take_over` when it is there. The engine that our supervisor starts is marked and left
alone. Imports the standard library only: it runs in every such process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

ENGINE_MODULE = "vllm.entrypoints.openai.api_server"
CHILD = "WINDLASS_ENGINE_CHILD"
"""Set in the engine's process, so that it stays the engine."""
PTH = (
    f"import sys; '{ENGINE_MODULE}' in sys.orig_argv and __import__('windlass.launch.hook', fromlist=['x']).take_over()"
)
"""The line of `windlass.pth`."""


def ours(command: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """The words of `windlass serve` for a Python's own command line, nothing when it is not that command."""
    words = list(command)
    if environment.get(CHILD) or ENGINE_MODULE not in words:
        return None
    at = words.index(ENGINE_MODULE)
    return words[at + 1 :] if words[at - 1] == "-m" else None


def take_over() -> None:
    """Become `windlass serve`, or return."""
    words = ours(sys.orig_argv, os.environ)
    if words is not None:
        os.execv(sys.executable, [sys.executable, "-m", "windlass.cli.main", "serve", *words])  # noqa: S606 - ourselves
