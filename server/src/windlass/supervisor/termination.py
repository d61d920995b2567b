"""The container's last words: one line of JSON where Kubernetes looks for it (at most 4 KiB)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from windlass.errors import GroupError, WindlassError

DEFAULT_PATH = Path("/dev/termination-log")
VARIABLE = "WINDLASS_TERMINATION_LOG"
BYTES_MAX = 4096
EXCERPT_BYTES = 2048
MESSAGE_CHARACTERS = 1000


def last_words(error: WindlassError, excerpt: str = "") -> str:
    """The line; the excerpt is cut at its beginning until the whole fits."""
    message = str(error)[:MESSAGE_CHARACTERS]
    words: dict[str, object] = {"reason": error.reason, "message": message, "exitCode": error.exit_code}
    if isinstance(error, GroupError):
        words["members"] = list(error.members)
    while True:
        line = json.dumps(words | ({"excerpt": excerpt} if excerpt else {}), ensure_ascii=False)
        if len(line.encode()) <= BYTES_MAX or not excerpt:
            return line
        excerpt = excerpt[200:]


def write(line: str, environment: Mapping[str, str]) -> None:
    """Leave the line; outside of a pod there is no such file, and the sentence on standard error is enough."""
    said = environment.get(VARIABLE)
    path = Path(said) if said else DEFAULT_PATH
    try:
        if said or path.exists():
            path.write_text(line, encoding="utf-8")
    except OSError:
        return
