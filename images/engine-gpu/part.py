"""Prints one part of a lock file: an image of 10 GB is installed in parts, so that each becomes a layer of its own.

Called in `Dockerfile` beside it:  part.py LOCK PART. Every requirement belongs to exactly one part.
"""

import re
import sys
from pathlib import Path

# Part → the beginnings of its packages' names; the last part is all that no other part names.
PARTS: dict[str, tuple[str, ...]] = {
    "cuda": ("nvidia-", "cuda-"),
    "torch": ("torch", "triton"),
    "kernels": ("flashinfer-", "tilelang", "tokenspeed-", "humming-kernels", "quack-kernels", "xgrammar", "z3-solver"),
    "engine": ("vllm",),
    "rest": (),
}
ENTRY = re.compile(r"^[A-Za-z0-9].*?(?=^[A-Za-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def part_of(name: str) -> str:
    """Return the part that a package belongs to."""
    return next((part for part, beginnings in PARTS.items() if name.startswith(beginnings)), "rest")


def select(lock: str, part: str) -> str:
    """Return the entries of a lock file, hashes included, that belong to a part."""
    entries: list[str] = ENTRY.findall(lock)
    return "".join(entry for entry in entries if part_of(entry.partition("==")[0]) == part)


def main() -> None:
    """Print the part; an unknown part is an error."""
    lock, part = sys.argv[1:]
    if part not in PARTS:
        raise SystemExit(f"part.py has no part {part!r}; it has: {', '.join(PARTS)}.")
    print(select(Path(lock).read_text(), part), end="")


if __name__ == "__main__":
    main()
