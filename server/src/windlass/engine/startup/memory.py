"""How much memory may still be filled with file pages: what the machine has, or this container's limit if that is less.

Clean file pages count as free, because the kernel gives them away before anything else: so the bytes that were read
ahead stay part of the figure, and `room_bytes` takes them off again. Pure, but for `free_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUPS = Path("/sys/fs/cgroup")
Read = Callable[[Path], str]


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where one version of control groups keeps its figures."""

    limit: str
    used: str
    pages: str
    page_keys: tuple[str, ...]


CGROUP_VERSIONS = (
    Cgroup("memory.max", "memory.current", "memory.stat", ("active_file", "inactive_file")),
    Cgroup(
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        ("total_active_file", "total_inactive_file"),
    ),
)


def free_bytes(read: Read = Path.read_text) -> int | None:
    """Memory that file pages may fill; None where this machine does not say."""
    machine = _figure(_text(read, MEMINFO), "MemAvailable:")
    found = [machine * 1024] if machine is not None else []
    for version in CGROUP_VERSIONS:
        limit = _text(read, CGROUPS / version.limit).strip()
        if limit.isdigit():
            found.append(_left(version, int(limit), read))
    return min(found, default=None)


def host_bytes(read: Read = Path.read_text) -> int:
    """Memory of this machine, or of this container where that is less; 0 where neither says."""
    found = [_figure(_text(read, MEMINFO), "MemTotal:") or 0]
    found[0] *= 1024
    limits = (_text(read, CGROUPS / version.limit).strip() for version in CGROUP_VERSIONS)
    return min([*found, *(int(limit) for limit in limits if limit.isdigit())])


def room_bytes(free: int | None, reserve: int, already_read: int) -> int:
    """Bytes that may still be read ahead. A machine that does not say how much is free gets none."""
    return 0 if free is None else free - reserve - already_read


def _left(version: Cgroup, limit: int, read: Read) -> int:
    stat = _text(read, CGROUPS / version.pages)
    pages = sum(_figure(stat, key) or 0 for key in version.page_keys)
    used = _text(read, CGROUPS / version.used).strip()
    return limit - (int(used) if used.isdigit() else 0) + pages


def _figure(text: str, key: str) -> int | None:
    rows = (line.split() for line in text.splitlines())
    return next((int(row[1]) for row in rows if len(row) > 1 and row[0] == key), None)


def _text(read: Read, path: Path) -> str:
    try:
        return read(path)
    except OSError:
        return ""
