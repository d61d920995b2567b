"""Why an engine ended that itself says it ended well.

When one of its inner processes dies the engine shuts down in order, with exit code 0; what it logged tells why.
"""

from __future__ import annotations

import re

from windlass.child.output import cause, without_prefix

# A follower of a group has no outer process: its main one tells of its workers.
INNER_ERROR = re.compile(r"^\((?:EngineCore|Worker|MainProcess)\S* pid=\d+\) ERROR ")
CORE_GONE = "EngineDeadError: EngineCore encountered an issue"
"""What the API's process says; when no inner process said more, the core itself was killed."""
DIED = re.compile(r"^Worker proc (\S+) died unexpectedly")


def reason(lines: tuple[str, ...]) -> str | None:
    """What an inner process failed with, or that it was lost; `None` when the log has neither."""
    errors = tuple(line for line in lines if INNER_ERROR.match(line))
    lost = (DIED.match(without_prefix(line)) for line in errors)
    name = next((found[1] for found in lost if found), None)
    if name is None and not errors and any(CORE_GONE in line for line in lines):
        name = "EngineCore"
    return cause(errors) or (f"its process {name} was killed or crashed" if name else None)
