"""The files that the rules look at, and the form of an offence."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Offence(NamedTuple):
    """A line of a file, and a sentence that says what is wrong there and what to do."""

    path: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


@dataclass(frozen=True)
class Tree:
    """Files of a checkout. `edited` holds texts that stand in place of a file's own."""

    root: Path
    paths: tuple[str, ...]
    edited: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path = ROOT) -> Tree:
        """Return tracked files, and new ones that git does not ignore: a page is checked before it is committed."""
        words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
        listed = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
        return cls(root, tuple(sorted(path for path in listed if path and (root / path).is_file())))

    def matching(self, *patterns: str) -> Iterator[str]:
        """Yield the paths that fit a shell pattern, in which `*` takes slashes, too."""
        return (path for path in self.paths if any(fnmatch(path, pattern) for pattern in patterns))

    def below(self, folder: str, *suffixes: str) -> Iterator[str]:
        """Yield the paths in a folder and its folders, of some endings."""
        return (path for path in self.paths if path.startswith(f"{folder}/") and path.endswith(suffixes or ("",)))

    def text(self, path: str) -> str:
        """Return a file's text."""
        return self.edited[path] if path in self.edited else (self.root / path).read_text(encoding="utf-8")

    def content(self, path: str) -> bytes:
        """Return a file's bytes."""
        return self.edited[path].encode() if path in self.edited else (self.root / path).read_bytes()

    def has(self, path: str) -> bool:
        """Whether a file or a folder of the tree has this path."""
        return path in self._places

    @cached_property
    def _places(self) -> frozenset[str]:
        folders = {str(folder) for path in self.paths for folder in Path(path).parents}
        return frozenset({*self.paths, *folders})


def line_of(text: str, part: str) -> int:
    """Return the number of the line in which a part of the text begins, or 1."""
    return text.count("\n", 0, max(text.find(part), 0)) + 1
