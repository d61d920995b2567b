"""How long a step of the engine may be to run as a CUDA graph. Pure.

The engine captures graphs of up to twice `--max-num-seqs` tokens, at most 512. The kernels of a longer step, as one
that reads a prompt, are started one by one. Quantized products are started more slowly than they run, so steps of up to
about 1,500 tokens wait for the host.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass_sizing import engine_flags
from windlass_sizing.model import drafter

from windlass.launch.inputs import LaunchInputs

FLAG = "--max-cudagraph-capture-size"
TOKENS = 1024
"""As the engine's own default allows on Blackwell; on older cards that is 512. It captures none longer than a step."""
OF_THE_USER = (
    *(FLAG, "--cudagraph-capture-sizes", "--cudagraph-capture-size", "--compilation-config", "-cc"),
    *("--optimization-level", "-O", "--performance-mode", "--config"),
)
"""Flags of the engine that say something of graphs themselves."""


def arguments(start: LaunchInputs, others: Sequence[str]) -> tuple[str, ...]:
    """Words for the engine's command line; `others` are those of other features."""
    is_compiled = start.machine.engine != "cpu" and not start.value("enforce-eager")
    if not is_compiled or any(_begins(word, OF_THE_USER) for word in start.words):
        return ()
    # Beside drafts the engine captures by their number, and leaves that out where a size is given.
    if any(_begins(word, drafter.FLAGS) for word in (*start.words, *others)):
        return ()
    return (FLAG, str(TOKENS))


def _begins(word: str, flags: Sequence[str]) -> bool:
    """Whether a word is one of the flags, shortened or not, with or without a value or a key; `-O3` is one, too."""
    if not word.startswith("-"):
        return False
    return engine_flags.record().flag_of(word) in flags or (word.startswith("-O") and "-O" in flags)
