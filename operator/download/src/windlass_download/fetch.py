"""Fetches files in parts, over many connections, until each is whole and verified or somebody must be told why not.

Parts are handed out file after file, so few files are unfinished at any time. A part that breaks off goes on where it
broke off; one that gains nothing for `give_up_s` ends the download, and the Job starts again where it ended.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from windlass_download.connection import Body, Connection
from windlass_download.errors import Retry, UserError
from windlass_download.partfile import Part, PartFile
from windlass_download.progress import Progress, ascii_name
from windlass_download.refusals import HubTrouble
from windlass_download.wanted import RemoteFile
from windlass_download.wire import SLOWEST

BACK_OFF_FIRST_S, BACK_OFF_MAX_S = 0.5, 30.0
ADDRESS_LIFE_S = 300.0  # a hub signs the address that it redirects to for a limited time


class Stopped(Retry):
    """The process is to end, or another thread has failed."""

    def __init__(self) -> None:
        super().__init__("the download was stopped", 0)


class CorruptError(UserError):
    """A file came twice with the right size and the wrong digest."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__(
            "DownloadCorrupt",
            f"{ascii_name(file.path)} came twice with another {file.algorithm} than the hub lists "
            f"({file.digest[:12]}...); the hub or a proxy before it damages the file",
        )


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """How hard to try."""

    connections: int
    part_bytes: int
    give_up_s: float


@dataclass(slots=True)
class _File:
    """A file in work."""

    data: PartFile
    url: str
    place: Path
    address: str = ""  # where the hub redirected to
    address_until: float = 0.0
    streamed: bool = False  # one thread takes it whole: the server knows no ranges
    active: int = 0  # threads that hold its descriptors
    faults: int = 0


class _Patience:
    """How long one piece of work may gain too little."""

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s, self._tries, self._last = give_up_s, 0, 0
        self._gained, self._gained_at = 0, time.monotonic()

    def delay(self, trouble: HubTrouble, gained: int) -> float:
        """Seconds until the next try; `gained` are all bytes so far. Raises the trouble when they are too few.

        A byte for each try is no progress: over `give_up_s` the work must gain SLOWEST bytes a second.
        """
        now = time.monotonic()
        if gained - self._gained >= max(1.0, SLOWEST * (now - self._gained_at)):
            self._gained, self._gained_at = gained, now
        elif now - self._gained_at > self._give_up_s:
            raise trouble
        self._tries = 0 if gained > self._last else self._tries
        self._last = gained
        usual = min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2.0 ** min(self._tries, 10))
        self._tries += 1
        return trouble.after_s or usual * (0.5 + random.random() / 2)  # noqa: S311 - spreads requests, guards nothing


class Fetcher:
    """One run over the missing files."""

    def __init__(
        self, connection: Connection, limits: TransferLimits, progress: Progress, stop: threading.Event
    ) -> None:
        self._connection, self._limits, self._progress, self._stop = connection, limits, progress, stop
        self._turn = threading.Condition()
        self._queue: deque[tuple[_File, Part]] = deque()
        self._open = 0  # files that are not in the tree yet
        self._error: BaseException | None = None

    def run(self, files: Sequence[tuple[PartFile, str, Path]]) -> None:
        """Fetch (file, URL, place in the tree), each until it is in its place; raises the first error of any thread."""
        work = [_File(data, url, place) for data, url, place in files]
        self._open = len(work)
        self._queue.extend((file, part) for file in work for part in file.data.missing())
        with ThreadPoolExecutor(self._limits.connections, "download") as pool:
            for file in work:
                if not file.data.missing():
                    pool.submit(self._guarded, self._complete, file)
            for _ in range(self._limits.connections):
                pool.submit(self._guarded, self._work)
        for file in work:
            file.data.close()
        if self._error is not None:
            raise self._error

    def _guarded(self, work: Callable[..., None], *args: _File) -> None:
        try:
            work(*args)
        except BaseException as error:
            with self._turn:
                self._error = self._error or error
                self._turn.notify_all()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            file, part = taken
            self._fetch(file, part)
            with self._turn:
                file.active -= 1
                # The last one to leave: nobody else may use a descriptor that is closed.
                ended = file.active == 0 and not file.data.missing()
            if ended:
                self._complete(file)

    def _next(self) -> tuple[_File, Part] | None:
        """The next part; None when all files are in their places."""
        with self._turn:
            while True:
                self._check()
                while self._queue:
                    file, part = self._queue.popleft()
                    if not file.streamed:
                        file.active += 1
                        return file, part
                if not self._open:
                    return None
                self._turn.wait(0.2)

    def _check(self) -> None:
        if self._error is not None or self._stop.is_set():
            raise Stopped

    def _fetch(self, file: _File, part: Part) -> None:
        """Fetch one part, however often it breaks off."""
        file.data.open()
        patience = _Patience(self._limits.give_up_s)
        checksum, offset = 0, part.start
        while offset < part.end:
            before = offset
            try:
                with self._connection.body(self._address(file), offset, part.end, file.data.remote.size) as body:
                    if not body.ranged:
                        break
                    self._remember(file, body)
                    for chunk in body.chunks():
                        data = chunk[: part.end - offset]
                        if not data:
                            break  # the answer goes on behind the part, maybe without end
                        self._store(file, data, offset)
                        checksum, offset = zlib.crc32(data, checksum), offset + len(data)
                if offset == before:
                    raise HubTrouble("the hub sends nothing", 0)
            except HubTrouble as trouble:
                file.address = ""
                self._pause(patience.delay(trouble, offset - part.start), trouble)
        if offset == part.end:
            file.data.finish(part, checksum)
        else:
            self._progress.have(part.start - offset)
            self._stream(file)

    def _stream(self, file: _File) -> None:
        """The server sends the file from its beginning whatever is asked: one thread takes all of it."""
        with self._turn:
            if file.streamed:
                return
            file.streamed = True
        patience, size = _Patience(self._limits.give_up_s), file.data.remote.size
        while missing := file.data.missing():
            try:
                with self._connection.body(file.url, 0, size, size) as body:
                    self._take_whole(file, body)
            except HubTrouble as trouble:
                left = sum(part.end - part.start for part in missing)
                self._pause(patience.delay(trouble, size - left), trouble)

    def _take_whole(self, file: _File, body: Body) -> None:
        """Take all parts that are missing out of one answer."""
        chunks, rest = body.chunks(), b""
        for part in file.data.parts:
            checksum, offset, wanted = 0, part.start, not file.data.has(part)
            try:
                while offset < part.end:
                    rest = rest or next(chunks, b"")
                    if not rest:
                        raise HubTrouble("the hub's answer is cut short", 0)
                    data, rest = rest[: part.end - offset], rest[part.end - offset :]
                    if wanted:
                        self._store(file, data, offset)
                    checksum, offset = zlib.crc32(data, checksum), offset + len(data)
            except HubTrouble:
                self._progress.have(part.start - offset if wanted else 0)
                raise
            file.data.finish(part, checksum)

    def _store(self, file: _File, data: bytes, offset: int) -> None:
        self._check()
        file.data.write(data, offset)
        self._progress.fetched(len(data), ascii_name(file.data.remote.path))

    def _complete(self, file: _File) -> None:
        """All parts are there: into the tree with it, or once more from the start."""
        file.data.open()
        if file.data.is_right():
            file.data.move_to(file.place)
            self._progress.have(0, files=1)
            with self._turn:
                self._open -= 1
                self._turn.notify_all()
            return
        file.faults += 1
        if file.faults > 1:
            raise CorruptError(file.data.remote)
        self._progress.have(-file.data.remote.size)
        file.data.start_over()
        with self._turn:
            file.streamed, file.address = False, ""
            self._queue.extendleft((file, part) for part in reversed(file.data.parts))
            self._turn.notify_all()

    def _address(self, file: _File) -> str:
        return file.address if file.address and time.monotonic() < file.address_until else file.url

    def _remember(self, file: _File, body: Body) -> None:
        """Ask the hub once for many parts: it counts the requests, its storage does not."""
        if body.address not in (file.url, file.address):
            file.address, file.address_until = body.address, time.monotonic() + ADDRESS_LIFE_S

    def _pause(self, delay_s: float, trouble: HubTrouble) -> None:
        self._progress.note(str(trouble))
        until = time.monotonic() + delay_s
        while (left_s := until - time.monotonic()) > 0:
            self._stop.wait(min(left_s, 0.5))
            self._check()
