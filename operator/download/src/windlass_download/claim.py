"""Who downloads to a target: claims that are files, for volumes on which locks lie.

The claim with the highest number counts. It is made with O_EXCL, so of all who want it one gets it; its owner renews
it by other content, and nobody compares clocks: a claim whose content has not changed while the onlooker's own clock
went on for `stale_s` is void, and the next number may be taken. Should two processes own the target all the same (a
paused one that wakes up, a file system that lies), they waste bandwidth and harm nothing: see `staging`.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windlass_base.untrusted_json import UnusableJsonError, json_of

from windlass_download.errors import Retry

NAME = re.compile(r"claim-(\d{1,9})")
CONTENT_MAX = 4096


class ClaimLost(Retry):
    """Another process has taken over."""

    def __init__(self) -> None:
        super().__init__("another process has taken this download over", 0)


class Claim:
    """A claim that this process holds."""

    def __init__(self, folder: Path, owner: str, number: int) -> None:
        self._folder, self.number, self._owner = folder, number, owner
        self._path = folder / f"claim-{number}"
        self._beat = 0
        self._lock = threading.Lock()

    def renew(self, progress: Mapping[str, Any]) -> None:
        """Say that we live; ClaimLost when we are believed dead."""
        with self._lock:
            self._beat += 1
            self.check()
            self._write({"owner": self._owner, "beat": self._beat, "download": dict(progress)})

    def check(self) -> None:
        """ClaimLost when a later claim is there, or ours is gone."""
        if newest(self._folder) != self.number or read(self._path).get("owner") not in (self._owner, None):
            raise ClaimLost

    def release(self) -> None:
        """Let the next one begin at once."""
        with self._lock:
            try:
                if newest(self._folder) == self.number:
                    self._write({"owner": self._owner, "released": True})
            except OSError:
                return  # it becomes stale by itself

    def _write(self, content: Mapping[str, Any]) -> None:
        # In place and of one length: a rename could bring a claim back that was taken over and swept away.
        text = json.dumps(content).encode()[: CONTENT_MAX - 1].ljust(CONTENT_MAX - 1) + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.pwrite(descriptor, text, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Claimant:
    """One who wants the target; it remembers since when the present claim has not changed."""

    def __init__(self, folder: Path, owner: str, stale_s: float, clock: Callable[[], float]) -> None:
        self._folder, self._owner, self._stale_s, self._clock = folder, owner, stale_s, clock
        self._seen: tuple[int, bytes] | None = None
        self._since = 0.0

    def take(self) -> Claim | None:
        """The claim, or None while another's is alive."""
        number = newest(self._folder)
        if number and not self._is_void(number):
            return None
        return self._make(number + 1)

    def progress(self) -> Mapping[str, Any]:
        """What the living owner tells of its download."""
        said = read(self._folder / f"claim-{newest(self._folder)}").get("download")
        return said if isinstance(said, Mapping) else {}

    def _is_void(self, number: int) -> bool:
        content = _bytes(self._folder / f"claim-{number}")
        if self._seen != (number, content):
            self._seen, self._since = (number, content), self._clock()
        return _parsed(content).get("released") is True or self._clock() - self._since >= self._stale_s

    def _make(self, number: int) -> Claim | None:
        path = self._folder / f"claim-{number}"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError:
            return None
        claim = Claim(self._folder, self._owner, number)
        claim.renew({})
        for other in self._folder.glob("claim-*"):
            if (match := NAME.fullmatch(other.name)) and int(match[1]) < number:
                other.unlink(missing_ok=True)
        return claim


def newest(folder: Path) -> int:
    """The number of the claim that counts; 0 when there is none."""
    try:
        names = [NAME.fullmatch(name) for name in os.listdir(folder)]  # noqa: PTH208 - names alone, no Path each
    except FileNotFoundError:
        return 0
    return max((int(match[1]) for match in names if match), default=0)


def read(path: Path) -> Mapping[str, Any]:
    """A claim's content; empty when it cannot be read or understood."""
    return _parsed(_bytes(path))


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(CONTENT_MAX)
    except OSError:
        return b""


def _parsed(content: bytes) -> Mapping[str, Any]:
    try:
        data = json_of(content)
    except UnusableJsonError:
        return {}
    return data if isinstance(data, Mapping) else {}
