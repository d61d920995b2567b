"""How many processors a quota of this container is worth.

The lookahead package counts them alike for drafts on the host; a server without that package needs the figure too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Files with microseconds of processor time and the period that they are for; "max" and -1 stand for no quota."""
Read = Callable[[Path], str]


def within_quota(cores: int, read: Read = Path.read_text) -> int:
    """So many cores, or the whole ones that a quota of processor time leaves; at least 1."""
    found = [cores]
    for files in QUOTAS:
        figures = [figure for name in files for figure in _words(read, CGROUPS / name)]
        if len(figures) == len(("quota", "period")) and all(map(str.isdigit, figures)):
            found.append(int(figures[0]) // int(figures[1]))
    return max(1, min(found))


def _words(read: Read, path: Path) -> list[str]:
    try:
        return read(path).split()
    except OSError:
        return []
