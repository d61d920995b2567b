"""What a quota of processor time is worth in cores."""

from pathlib import Path

import pytest
from windlass.engine.startup.processors import within_quota


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 16),
        ({"cpu.max": "400000 100000\n"}, 4),
        ({"cpu.max": "450000 100000\n"}, 4),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "6400000 100000\n"}, 16),
        ({"cpu.max": "max 100000\n"}, 16),
        ({"cpu.max": ""}, 16),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 16),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "200000\n"}, 16),
    ],
)
def test_a_quota_leaves_whole_cores(files: dict[str, str], cores: int) -> None:
    def read(path: Path) -> str:
        try:
            return files[str(path.relative_to("/sys/fs/cgroup"))]
        except KeyError:
            raise FileNotFoundError(path) from None

    assert within_quota(16, read) == cores
