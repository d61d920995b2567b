"""Rules of the house that no linter knows."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 400


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines()]


@pytest.mark.parametrize("path", tracked("*.py", "*.go"), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_holds_one_idea_in_at_most_400_lines(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


def test_no_file_is_called_utils():
    names = {path.stem for path in tracked("*.py")}
    assert not names & {"utils", "helpers", "common", "misc"}


def test_locks_name_no_index():
    for lock in tracked("*requirements.lock"):
        assert not re.search(r"https?://|--index|--find-links", lock.read_text()), lock


def test_every_make_target_is_in_help():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", text, re.M))
    described = set(re.findall(r"^([a-z-]+):.*## ", text, re.M))
    assert targets == described
