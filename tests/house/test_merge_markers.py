"""No tracked text holds both sides of a merge."""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
BEGIN, END = "<" * 7 + " ", ">" * 7 + " "
"""Written so that this file does not find itself."""


def marked(root: Path) -> list[str]:
    """Every line of a tracked text below `root` that git's merge wrote."""
    words = ["git", "-C", str(root), "grep", "--line-number", "-I", "-E", f"^({BEGIN}|{END})"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines()


def test_no_file_holds_a_conflict():
    assert marked(REPOSITORY) == []


def test_a_conflict_is_found(tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "page.md").write_text(f"{BEGIN}HEAD\none\n{END}other\n")
    subprocess.run(["git", "-C", tmp_path, "add", "page.md"], check=True)
    assert len(marked(tmp_path)) == 2
