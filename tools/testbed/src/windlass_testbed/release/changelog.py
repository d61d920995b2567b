"""CHANGELOG.md out of the fragments in changelog.d/: a section a kind, a sentence a line. A function of texts."""

import re
from collections.abc import Mapping
from pathlib import Path

from windlass_testbed.errors import BedError

KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security"}
NAME = re.compile(rf"(\d+)\.({'|'.join(KINDS)})\.md")


def fragments(folder: Path) -> dict[str, str]:
    """Return the texts of the folder by file name; its README is for contributors."""
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != "README.md"}


def assembled(version: str, date: str, fragments: Mapping[str, str], earlier: str = "") -> str:
    """Return the change log: the fragments (file name → text) as this version, then what earlier versions items."""
    rows = sorted((_parsed(name), text) for name, text in fragments.items())
    lines = ["# Changelog", "", f"## {version} ({date})"]
    for kind, title in KINDS.items():
        items = [f"- {line} (#{issue})" for (issue, of), text in rows if of == kind for line in _sentences(text)]
        lines += ["", f"### {title}", "", *items] if items else []
    older = earlier.removeprefix("# Changelog").strip()
    return "\n".join([*lines, *(["", older] if older else [])]) + "\n"


def _parsed(name: str) -> tuple[int, str]:
    match = NAME.fullmatch(name)
    if not match:
        raise BedError(f"changelog.d/{name} is no fragment: name it ISSUE.KIND.md with KIND one of {', '.join(KINDS)}.")
    return int(match[1]), match[2]


def _sentences(text: str) -> list[str]:
    return [line.strip().removeprefix("- ") for line in text.splitlines() if line.strip()]
