"""Tests that are marked `alone` run while the other worker runs none: pytest in two workers, with our conftest."""

import shutil
import subprocess
import sys
from itertools import combinations
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"
FILE = """
import os, time
import pytest

def note(name):
    began = time.monotonic()
    time.sleep(0.05)
    with open("times", "a") as file:
        file.write(f"{name} {began} {time.monotonic()}\\n")

@pytest.mark.parametrize("number", range(4))
def test_shared(number):
    note("shared")

@pytest.mark.alone
@pytest.mark.parametrize("number", range(3))
def test_alone(number):
    note("alone")

@pytest.mark.parametrize("number", range(4))
def test_shared_again(number):
    note("shared")
"""


def intervals(folder: Path) -> list[tuple[str, float, float]]:
    """The name, start and end of each test."""
    rows = (line.split() for line in (folder / "times").read_text().splitlines())
    return [(name, float(began), float(ended)) for name, began, ended in rows]


def test_nothing_runs_beside_a_test_that_is_alone(tmp_path: Path) -> None:
    """Neither another file's test nor one that is alone too; all of them run."""
    shutil.copy(CONFTEST, tmp_path / "conftest.py")
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(FILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  alone: as in the repository\n")
    words = ("-q", "-n", "2", "--dist", "loadfile", "-p", "no:randomly", "-p", "no:schemathesis")
    command = [sys.executable, "-m", "pytest", *words, "--rootdir", tmp_path, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = intervals(tmp_path)
    assert len(found) == 2 * (4 + 3 + 4)
    beside = [
        (one, other)
        for one, other in combinations(found, 2)
        if "alone" in (one[0], other[0]) and one[1] < other[2] and other[1] < one[2]
    ]
    assert beside == []
