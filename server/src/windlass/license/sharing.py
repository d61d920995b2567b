"""Programs of one pod that have one lease, counted so that the last of them gives it back and no other does.

The license server knows a lease by pod and GPUs, so a second program of the pod on the same GPUs renews the lease of
the first. Each holds a shared lock on one file of this machine from before it asks until it ends; the last one gets it
alone. The kernel takes the lock of a program that is killed, so no count goes wrong. Containers that share no folder
for temporary files do not know of each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

JOIN_S_MAX = 5.0
"""How long a start waits for one that gives the lease back, which takes at most `RELEASE_TIMEOUT_S`."""
POLL_S = 0.05


def name(uid: str, gpus: Sequence[str], addresses: Sequence[str]) -> str:
    """The name that programs with the same lease share: one pod, the same GPUs, the same license servers."""
    return hashlib.sha256(json.dumps([uid, sorted(gpus), sorted(addresses)]).encode()).hexdigest()[:32]


class Share:
    """This program's part of a lease."""

    def __init__(self, lease: str) -> None:
        """Of the lease with this `name`."""
        self._name = lease
        self._lock: int | None = None
        self._alone = False

    async def join(self) -> None:
        """Count from now on; waits a little for a program that gives the lease back just now.

        Without a writable folder this program counts as the only one: most pods have no other, and the seat of a pod
        that ended is to be free at once.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + JOIN_S_MAX
        while self._lock is None:
            try:
                self._lock = _locked(_path(self._name))
            except BlockingIOError:
                if clock() >= until:
                    return
                await asyncio.sleep(POLL_S)
            except OSError:
                return

    def is_last(self) -> bool:
        """Whether no other program has the lease; if so, none joins before this one leaves."""
        if self._lock is None:
            return True
        try:
            # The kernel drops the shared lock first, so of two that end at once the later one gets it alone.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._alone = True
        return True

    def leave(self) -> None:
        """Count no more; the last one takes the file away, since programs outside a cluster have a name each."""
        if self._lock is None:
            return
        if self._alone or self.is_last():
            with contextlib.suppress(OSError):  # a file that stays is empty, and the next program takes it up
                _path(self._name).unlink()  # before the lock goes: one that waits for it sees that, and makes another
        os.close(self._lock)
        self._lock, self._alone = None, False


def _path(lease: str) -> Path:
    return Path(tempfile.gettempdir()) / f"windlass-license-{os.getuid()}" / lease


def _locked(path: Path) -> int:
    """The file, locked together with others; BlockingIOError while one has it alone, OSError where none can be."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.parent.lstat().st_uid != os.getuid():
        raise PermissionError(f"{path.parent} belongs to somebody else")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if not _is_still(lock, path):
            raise BlockingIOError(f"{path} was taken away meanwhile")
    except OSError:
        os.close(lock)
        raise
    return lock


def _is_still(lock: int, path: Path) -> bool:
    """Whether the locked file is the one that others will find there."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False
