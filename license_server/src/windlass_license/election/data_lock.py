"""Which of several replicas is the active one. Outside a cluster: who holds a lock on the data directory.

`activation` asks an election again and again. Inside a cluster it is a Kubernetes Lease (`kube_lease`).
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol

from windlass_license.errors import SettingsError

LOCK_NAME = "active.lock"


class Election(Protocol):
    """One seat for several processes."""

    period_s: float
    """How often `attempt` is to be called."""

    def attempt(self) -> bool:
        """Take the seat, or keep it; whether this process has it now. May do I/O."""

    def valid(self) -> bool:
        """Whether this process surely still has the seat. No I/O: asked around every commit."""

    def release(self) -> None:
        """Leave the seat to another."""

    def holder(self) -> str:
        """Who has the seat, for a sentence."""


class FileLock:
    """The seat is a lock on a file of the data directory; the kernel frees it when the process ends, in any way."""

    period_s = 1.0

    def __init__(self, directory: Path) -> None:
        self._path, self._handle = directory / LOCK_NAME, -1

    def attempt(self) -> bool:
        """Take the lock without waiting for it."""
        if self.valid():
            return True
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()}\n".encode())
        self._handle = handle
        return True

    def valid(self) -> bool:
        """A lock once taken stays until it is released."""
        return self._handle >= 0

    def release(self) -> None:
        """Free the lock; the file stays, so that nobody locks another one."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def holder(self) -> str:
        """What the holder wrote into the file."""
        try:
            return self._path.read_text(encoding="utf-8").strip() or "another process"
        except OSError:
            return "another process"

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            where = self._path.parent
            raise SettingsError(f"cannot keep licenses in {where}: {error}; give a writable directory") from error
