"""How much may be read ahead."""

from pathlib import Path

import pytest
from windlass.engine.startup.memory import free_bytes, room_bytes

MEMINFO = {"/proc/meminfo": "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n"}
VERSION_2 = {
    "/sys/fs/cgroup/memory.max": "600000\n",
    "/sys/fs/cgroup/memory.current": "500000\n",
    "/sys/fs/cgroup/memory.stat": "anon 1\nactive_file 100000\ninactive_file 50000\n",
}
VERSION_1 = {
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "300000\n",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": "100000\n",
    "/sys/fs/cgroup/memory/memory.stat": "inactive_file 7\ntotal_inactive_file 20000\n",
}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        pytest.param(MEMINFO, 1000 * 1024, id="machine"),
        pytest.param(MEMINFO | VERSION_2, 250_000, id="container-is-smaller"),
        pytest.param(MEMINFO | VERSION_1, 220_000, id="older-control-groups"),
        pytest.param(MEMINFO | {"/sys/fs/cgroup/memory.max": "max\n"}, 1000 * 1024, id="no-limit"),
        pytest.param(MEMINFO | {"/sys/fs/cgroup/memory.max": "9000000\n"}, 1000 * 1024, id="machine-is-smaller"),
        pytest.param({}, None, id="not-told"),
    ],
)
def test_free_bytes(files: dict[str, str], free: int | None) -> None:
    """The smaller of machine and container; file pages can be taken back, so they are free."""

    def read(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    assert free_bytes(read) == free


def test_this_machine_says_how_much_is_free() -> None:
    """The real files are read too."""
    assert (free_bytes() or 0) > 0


@pytest.mark.parametrize(("free", "already", "room"), [(100, 0, 90), (100, 50, 40), (5, 0, -5), (None, 0, 0)], ids=str)
def test_room(free: int | None, already: int, room: int) -> None:
    """What was read is still counted as free by the kernel, so it is taken off."""
    assert room_bytes(free, 10, already) == room
