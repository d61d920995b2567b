"""Bearer keys: where they come from, and whether a request has one of them.

Once keys are configured the server never opens again by accident: an unreadable or empty file closes it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from windlass.api.refusal import Refusal

log = logging.getLogger(__name__)
RECHECK_S = 1.0
EVERYONE = ""
"""Who asks when no keys are configured."""
CHALLENGE = (("www-authenticate", "Bearer"),)

Digest = bytes
Signature = tuple[tuple[str, int, int, int], ...]


def words(text: str) -> tuple[str, ...]:
    """Keys of a comma list."""
    return tuple(key for part in text.split(",") if (key := part.strip()))


def lines(text: str) -> tuple[str, ...]:
    """Keys of a file: one a line; blank lines and lines that begin with # are skipped."""
    return tuple(key for line in text.splitlines() if (key := line.strip()) and not key.startswith("#"))


def digests(keys: Iterable[str]) -> tuple[Digest, ...]:
    """Hashed keys are equally long, so that comparing them tells nothing about their length."""
    return tuple(hashlib.sha256(key.encode()).digest() for key in keys)


def holder(authorization: bytes, known: Iterable[Digest]) -> str | None:
    """Who asks, as a short name of the key; None without a right key. Every key is compared, found or not."""
    scheme, _, presented = authorization.partition(b" ")
    digest = hashlib.sha256(presented.strip()).digest()
    found = False
    for one in known:
        found |= hmac.compare_digest(digest, one)
    return digest.hex()[:12] if found and scheme.lower() == b"bearer" else None


class KeyFile:
    """Keys of a file, or of all files of a directory, that may be replaced while the server runs.

    A mounted Secret is such a directory: one file an entry, all replaced at once by a swap of links. Its own
    bookkeeping begins with a dot and is passed over.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read yet."""
        self._path, self._clock = Path(path), clock
        self._checked_at = -RECHECK_S
        self._signature: Signature | None = None
        self._trouble = ""
        self._digests: tuple[Digest, ...] = ()

    def digests(self) -> tuple[Digest, ...]:
        """The file's keys now; looked at again at most once a second."""
        now = self._clock()
        if now - self._checked_at >= RECHECK_S:
            self._checked_at = now
            self._look()
        return self._digests

    def _look(self) -> None:
        try:
            files = self._files()
            signature = tuple(_signed(path) for path in files)
            if signature == self._signature:
                return
            found = tuple(key for path in files for key in lines(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            self._take(None, ())
            self._warn(f"cannot be read ({getattr(error, 'strerror', None) or error})")
            return
        self._take(signature, found)
        self._warn("" if found else "holds no key")

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        return sorted(path for path in self._path.iterdir() if not path.name.startswith(".") and path.is_file())

    def _take(self, signature: Signature | None, found: tuple[str, ...]) -> None:
        self._signature, self._digests = signature, digests(found)

    def _warn(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.error("windlass: key file %s %s; its keys are refused until it has some", self._path, trouble)
        self._trouble = trouble


def _signed(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return (path.name, status.st_mtime_ns, status.st_ino, status.st_size)


class KeyRing:
    """All the keys of this server."""

    def __init__(self, listed: str, file: KeyFile | None) -> None:
        """Take the comma list of the variable, and the file when one is named."""
        self._listed, self._file = digests(words(listed)), file
        self.required = bool(listed.strip() or file)
        if listed.strip() and not self._listed:
            log.error("windlass: the list of keys holds no key; requests are refused until it has some")

    @property
    def several(self) -> bool:
        """Whether requests of different keys may come."""
        return len(set(self._known())) > 1

    def admit(self, authorization: bytes) -> str:
        """Who asks; refuses without a right key."""
        if not self.required:
            return EVERYONE
        who = holder(authorization, self._known())
        if who is None:
            said = "this API key is not known" if authorization else "this server asks for an API key"
            raise Refusal(401, f'{said}; send the header "Authorization: Bearer KEY"', headers=CHALLENGE)
        return who

    def _known(self) -> tuple[Digest, ...]:
        return self._listed + (self._file.digests() if self._file else ())
