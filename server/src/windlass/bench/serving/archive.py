"""The folder of results on standard output, for `kubectl windlass bench`, which reads the log of the Job's pod.

Lines that begin with MARK hold a gzipped tar in base64; the last one has its SHA-256. The pod's log is all that a user
needs the right to read: no port, no volume, no command in the pod.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from windlass.errors import UsageError

MARK = "windlass-bench-archive"
LINE = 4096
"""Characters of base64 a line: a container runtime cuts lines at 16 KiB."""
LOG_MAX = 6 << 20
"""Characters in all: a kubelet keeps 10 MiB of a container's log unless it is told otherwise."""


def lines(folder: Path) -> Iterator[str]:
    """The archive; UsageError when a log may not keep it."""
    packed = pack(folder)
    text = base64.b64encode(packed).decode()
    if len(text) > LOG_MAX:
        raise UsageError(
            f"--print-archive: {folder} packs to {len(text)} characters, and a pod's log may lose what is above "
            f"{LOG_MAX}; measure fewer loads at once"
        )
    for at in range(0, len(text), LINE):
        yield f"{MARK} {text[at : at + LINE]}"
    yield f"{MARK} sha256={hashlib.sha256(packed).hexdigest()}"


def pack(folder: Path) -> bytes:
    """Files below the folder by their names in it; no owner, no time of packing."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                about = tarfile.TarInfo(str(path.relative_to(folder)))
                about.size, about.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    tar.addfile(about, file)
    return out.getvalue()
