"""Archives whose bytes depend on names and contents alone: entries in order, one time, no owner, two modes."""

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

PLAIN, EXECUTABLE = 0o644, 0o755


def tar_tree(folder: Path, target: Path, prefix: str, epoch: int) -> None:
    """Write every file and symbolic link under a folder into a tar, below `prefix`, with the time `epoch`."""
    with target.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).parts):
            if path.is_symlink() or path.is_file():
                _add(tar, path, f"{prefix}{path.relative_to(folder)}", epoch)


def _add(tar: tarfile.TarFile, path: Path, name: str, epoch: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime = epoch
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        tar.addfile(entry)
        return
    entry.size = path.stat().st_size
    entry.mode = EXECUTABLE if path.stat().st_mode & 0o100 else PLAIN
    with path.open("rb") as data:
        tar.addfile(entry, data)


def settled(tgz: bytes, epoch: int) -> bytes:
    """Return a .tgz with the same files in order, with one time and no owner: `helm package` writes the time of day."""
    with tarfile.open(fileobj=io.BytesIO(tgz), mode="r:gz") as source:
        files = {entry.name: _data(source, entry) for entry in source if entry.isfile()}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in chart_order(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(files[name]), epoch, PLAIN
            tar.addfile(entry, io.BytesIO(files[name]))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _data(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    return file.read() if file else b""


def chart_order(names: Iterable[str]) -> list[str]:
    """Return a chart's files in order, Chart.yaml first: helm reads it before anything else."""
    return sorted(names, key=lambda name: (not name.endswith("/Chart.yaml"), name))
