"""`windlass-operator inspect`: runs inside the inspect Job, on the mounted volume.

It ends with 0 whenever it could tell something, good or bad: a Job that fails is one that has nothing to say.
"""

from __future__ import annotations

from pathlib import Path

from windlass_sizing import checkpoint

TERMINATION_LOG = Path("/dev/termination-log")


def inspect(root: Path, path: str, source: str, termination_log: Path) -> str:
    """Look at the directory and leave the report where the kubelet picks it up; returns it too."""
    report = checkpoint.inspect(root, path, source).to_json()
    termination_log.write_text(report, encoding="utf-8")
    return report
