"""Content keys: a build result is found by a hash of all its inputs, never by its name alone."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path


def key(*parts: str | bytes | Path) -> str:
    """Return 16 hex digits over strings, bytes, and the names and bytes of files (folders: every file in them)."""
    digest = hashlib.sha256()
    for part in parts:
        for chunk in _chunks(part):
            digest.update(hashlib.sha256(chunk).digest())
    return digest.hexdigest()[:16]


def _chunks(part: str | bytes | Path) -> Iterable[bytes]:
    if isinstance(part, bytes):
        return (part,)
    if isinstance(part, str):
        return (part.encode(),)
    return (chunk for file in files(part) for chunk in (str(file.relative_to(part.parent)).encode(), file.read_bytes()))


def files(path: Path) -> list[Path]:
    """Return a file, or every source file under a folder in a stable order (byte code and editor dirt left out)."""
    if path.is_file():
        return [path]
    return sorted(f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return `target`, made by `make(temporary)` and renamed into place when it is not there: never a half one."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.making")
        if temporary.is_dir():
            shutil.rmtree(temporary)
        make(temporary)
        temporary.rename(target)
    return target
