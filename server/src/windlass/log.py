"""How `windlass run` and the DeepSpeed server log: sentences on standard error, the engine's lines on standard output.

Text by default. As JSON lines, every line of the container is one object: the supervisor's own by logging, the engine's
by `engine_lines`. The engine itself logs as text, which the supervisor reads to name what went wrong.
"""

from __future__ import annotations

import atexit
import logging
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from windlass_base import json_lines
from windlass_base.json_lines import LogSettings

from windlass.errors import UsageError

if TYPE_CHECKING:
    from windlass.child.output import Sink

ENGINE_LEVEL = "VLLM_LOGGING_LEVEL"
CHATTY = ("httpx", "httpcore")
_in_force = LogSettings()


def start(environment: Mapping[str, str], program: str = "windlass") -> None:
    """Log as the environment says from now on; UsageError names a wrong variable."""
    global _in_force  # noqa: PLW0603 - a process has one log
    try:
        _in_force = json_lines.read(environment)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if _in_force.is_json:
        json_lines.install(_in_force, program)
        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)


def say(sentence: str, level: int = logging.INFO, program: str = "windlass") -> None:
    """One sentence, if its level is logged."""
    if level < _in_force.level:
        return
    record = json_lines.line(_in_force, time.time(), level, program, sentence) if _in_force.is_json else ""
    print(record or f"{program}: {sentence}", file=sys.stderr, flush=True)


def engine_level(environment: Mapping[str, str]) -> dict[str, str]:
    """The engine's own variable for the level, unless it is set."""
    wanted = environment.get(json_lines.LEVEL_VARIABLE, "").strip().upper()
    return {ENGINE_LEVEL: wanted} if wanted and ENGINE_LEVEL not in environment else {}


def engine_output() -> Sink:
    """Where the engine's output goes: standard output, each line as one object where the log is JSON."""
    if not _in_force.is_json:
        return sys.stdout.buffer
    from windlass.child.engine_lines import EngineLines

    lines = EngineLines(sys.stdout.buffer, _in_force)
    atexit.register(lines.close)
    return lines
