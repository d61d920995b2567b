"""Bearer keys: where they come from, and whether a request has one of them.

Once keys are configured the server never opens again by accident: an unreadable or empty file closes it. A document
that is wrong changes nothing: the keys that were read before stay in force, and the log says what to mend.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from windlass.front import key_document
from windlass.front.key_document import Key, KeyDocumentError
from windlass.front.refusal import Refusal

log = logging.getLogger("windlass.api.keys")
RECHECK_S = 1.0
EVERYONE = ""
"""Who asks when no keys are configured."""
LISTED = "listed"
"""The name of all keys that a comma list holds."""
NOBODY = Key("", (), EVERYONE)
CHALLENGE = (("www-authenticate", "Bearer"),)
HEADERS = 'send the header "Authorization: Bearer KEY" or "X-API-Key: KEY"'

Signature = tuple[tuple[str, int, int, int], ...]


def words(text: str) -> tuple[str, ...]:
    """Keys of a comma list."""
    return tuple(key for part in text.split(",") if (key := part.strip()))


def lines(text: str) -> tuple[str, ...]:
    """Keys of a plain file: one a line; blank lines and lines that begin with # are skipped."""
    return tuple(key for line in text.splitlines() if (key := line.strip()) and not key.startswith("#"))


def holder(authorization: bytes, known: Iterable[Key]) -> Key | None:
    """The key that a request has; None without a right one. Every key is compared, found or not."""
    scheme, _, presented = authorization.partition(b" ")
    digest = hashlib.sha256(presented.strip()).digest()
    found = None
    for key in known:
        for one in key.digests:
            if hmac.compare_digest(digest, one):
                found = found or key
    return found if scheme.lower() == b"bearer" else None


@dataclass(frozen=True, slots=True)
class _Found:
    """What one look at the file found; `wrong` keeps the keys of the look before."""

    keys: tuple[Key, ...] = ()
    trouble: str = ""
    wrong: bool = False


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
        self._keys: tuple[Key, ...] = ()
        self.is_wrong = False
        """Whether the file cannot be used as it is."""

    def keys(self) -> tuple[Key, ...]:
        """The file's keys now; looked at again at most once a second."""
        now = self._clock()
        if now - self._checked_at >= RECHECK_S:
            self._checked_at = now
            self._look()
        return self._keys

    def _look(self) -> None:
        signature: Signature | None = None
        try:
            files = self._files()
            signature = tuple(_signed(path) for path in files)
            if signature == self._signature:
                return
            found = _read(files)
        except (OSError, UnicodeDecodeError) as error:
            signature = None
            found = _Found(trouble=f"cannot be read ({getattr(error, 'strerror', None) or error})")
        except Exception as error:  # a defect of ours; its words may repeat a key, its kind does not
            found = _Found(trouble=f"cannot be used ({type(error).__name__}); undo its last change", wrong=True)
        self._signature = signature
        if not found.wrong:
            self._keys = found.keys
        self.is_wrong = bool(found.trouble)
        self._warn(found)

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        return sorted(path for path in self._path.iterdir() if not path.name.startswith(".") and path.is_file())

    def _warn(self, found: _Found) -> None:
        if found.trouble and found.trouble != self._trouble:
            kept = f"the {len(self._keys)} keys read before stay" if self._keys else "its keys are refused"
            log.error("windlass: key file %s %s; %s until then", self._path, found.trouble, kept)
        self._trouble = found.trouble


def _read(files: list[Path]) -> _Found:
    found: dict[str, tuple[Path, tuple[Key, ...]]] = {}
    plain: list[Key] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        if not key_document.is_document(path.name, text):
            plain += (key_document.plain(key, path.name) for key in lines(text))
            continue
        try:
            keys = key_document.parse(text)
        except KeyDocumentError as error:
            return _Found(trouble=f"({path.name}) {error}", wrong=True)
        for key in keys:
            if key.name in found:
                other = found[key.name][0].name
                return _Found(
                    trouble=f'has the name "{key.name}" in {other} and in {path.name}; rename one', wrong=True
                )
            found[key.name] = (path, (key,))
    named = tuple(key for _, keys in found.values() for key in keys)
    return _Found((*named, *plain), "" if named or plain else "holds no key; put one into it")


def _signed(path: Path) -> tuple[str, int, int, int]:
    status = path.stat()
    return (path.name, status.st_mtime_ns, status.st_ino, status.st_size)


class KeyRing:
    """All the keys of this server."""

    def __init__(self, listed: str, file: KeyFile | None, clock: Callable[[], float] = time.time) -> None:
        """Take the comma list of the variable, and the file when one is named; `clock` is the time of day."""
        self._listed = tuple(key_document.plain(key, LISTED) for key in words(listed))
        self._file, self._clock = file, clock
        self._of_file: tuple[Key, ...] = ()
        self._take(())
        self.required = bool(listed.strip() or file)
        if listed.strip() and not self._listed:
            log.error("windlass: the list of keys holds no key; requests are refused until it has some")

    @property
    def several(self) -> bool:
        """Whether requests of different keys may come."""
        self.known()
        return self._several

    @property
    def is_wrong(self) -> bool:
        """Whether the key file cannot be used as it is."""
        return bool(self._file and self._file.is_wrong)

    def admit(self, authorization: bytes) -> str:
        """Who asks, as the queue tells holders apart; refuses without a right key."""
        return self.find(authorization).id

    def find(self, authorization: bytes) -> Key:
        """The key that a request has; refuses without a right one, and with one whose time is over."""
        if not self.required:
            return NOBODY
        key = holder(authorization, self.known())
        if key is None:
            said = "this API key is not known" if authorization else "this server asks for an API key"
            raise Refusal(401, f"{said}; {HEADERS}", headers=CHALLENGE)
        if key.expires_at is not None and self._clock() >= key.expires_at:
            day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(key.expires_at))
            message = f'the API key "{key.name}" expired at {day}; ask the operator of this server for a new one'
            raise Refusal(401, message, headers=CHALLENGE)
        return key

    def known(self) -> tuple[Key, ...]:
        """Every key, those whose time is over too."""
        of_file = self._file.keys() if self._file else ()
        if of_file is not self._of_file:
            self._take(of_file)
        return self._all

    def _take(self, of_file: tuple[Key, ...]) -> None:
        self._of_file, self._all = of_file, self._listed + of_file
        self._several = len({key.id for key in self._all}) > 1
