"""The whole download: wait for the claim, look, fetch, publish; and what is said about it in the end."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass_download.claim import Claim, Claimant, ClaimLost
from windlass_download.comparison import Comparison, compare, gather, left_work
from windlass_download.connection import Connection
from windlass_download.errors import Retry, UserError
from windlass_download.fetch import Fetcher, Stopped, TransferLimits
from windlass_download.hubs import HUBS, Ask
from windlass_download.partfile import PartFile, make_folder
from windlass_download.place import Marker, Place, is_complete, place_of, read_marker
from windlass_download.progress import Progress, size
from windlass_download.publish import NotWhole, publish, recover, sweep
from windlass_download.refusals import FileChanged, HubTrouble
from windlass_download.wanted import Listing, RemoteFile, Wanted

CYCLES_MAX = 6
WAIT_S = 1.0
LIST_BACK_OFF_S = 2.0
LISTING_S = 900.0  # for all pages of one listing; the largest take seconds
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True)
class Order:
    """What to put where, and how hard to try."""

    root: Path
    path: str
    wanted: Wanted
    limits: TransferLimits
    token: str = field(default="", repr=False)
    stall_s: float = 30.0
    stale_s: float = 60.0
    verify: bool = False
    authorities: str = ""
    """PEM text: certificates that are trusted beside the known ones."""


class Download:
    """One process' attempt at one order."""

    def __init__(self, order: Order, progress: Progress, stop: threading.Event) -> None:
        self._order, self._progress, self._stop = order, progress, stop
        self._hub = HUBS[order.wanted.hub]
        with _spoken(order.path):  # a share of NFS may fail at the first look, too
            self._place = place_of(order.root, order.path)
        self._owner = secrets.token_hex(6)
        credentials = self._hub.credentials(order.token) if order.token else {}
        connections = order.limits.connections
        self._connection = Connection(order.wanted, credentials, order.stall_s, connections, order.authorities)

    def run(self) -> Marker:
        """Bring the model to its place, or wait until another process has; UserError or Retry says why not."""
        try:
            with _spoken(self._order.path):
                while (marker := self._attempt()) is None:
                    pass
                return marker
        finally:
            self._connection.close()

    def _attempt(self) -> Marker | None:
        """One claim from its beginning to its end; None when it was lost to another process."""
        claimant = Claimant(self._place.staging, self._owner, self._order.stale_s, time.monotonic)
        while True:
            # A staging directory beside a whole model is that of a living process, or of one that was killed before it
            # had brought over the files of others and swept: whoever owns it next ends that work.
            is_quiet = not self._order.verify and not self._place.staging.is_dir()
            if is_quiet and (marker := self._complete()) is not None:
                return marker
            try:
                make_folder(self._place.staging)
                claim = claimant.take()
            except (FileNotFoundError, ClaimLost):  # its owner has just finished and swept
                continue
            if claim is not None:
                break
            self._progress.waiting(claimant.progress())
            if self._stop.wait(min(WAIT_S, self._order.stale_s / 10)):
                raise Stopped
        return self._own(claim)

    def _own(self, claim: Claim) -> Marker | None:
        halt = threading.Event()
        try:
            with _beating(claim, self._progress, self._order.stale_s, self._stop, halt):
                for _ in range(CYCLES_MAX):
                    try:
                        return self._cycle(claim, halt)
                    except (NotWhole, FileNotFoundError):
                        claim.check()
                raise Retry("the directory changes while it is written; is another program at work in it?", 0)
        except ClaimLost:
            return None
        except Stopped:
            if self._stop.is_set():
                raise
            return None
        finally:
            claim.release()

    def _cycle(self, claim: Claim, halt: threading.Event) -> Marker:
        wanted, place = self._order.wanted, self._place
        recover(place)
        marker = self._complete()
        if marker is None or self._order.verify:
            listing = self._insist_on_listing(halt)
            self._progress.begin(listing.size, len(listing.files))
            seen = compare(place, wanted, listing, self._order.verify)
            self._fetch(seen, claim.number, halt)
            claim.check()
            publish(place, wanted, seen, self._owner)
            marker = Marker(wanted, listing)
            if not is_complete(place.target, marker):  # another owner has published as well
                raise NotWhole(place.target.name)
        sweep(place)
        return marker

    def _complete(self) -> Marker | None:
        """The marker of a target that holds all that is wanted, by the files' sizes."""
        marker = read_marker(self._place.target)
        if marker is None or marker.wanted != self._order.wanted or not is_complete(self._place.target, marker):
            return None
        return marker

    def _insist_on_listing(self, halt: threading.Event) -> Listing:
        until, tries = time.monotonic() + self._order.limits.give_up_s, 0
        while True:
            try:
                return self._hub.listing(self._order.wanted, self._asking(halt))
            except HubTrouble as trouble:
                if time.monotonic() > until:
                    raise
                tries += 1
                self._progress.note(str(trouble))
                if halt.wait(trouble.after_s or min(30.0, LIST_BACK_OFF_S * tries)):
                    raise Stopped from None

    def _asking(self, halt: threading.Event) -> Ask:
        """Asks for the pages of one listing, within its time."""
        until = time.monotonic() + LISTING_S

        def ask(url: str) -> tuple[Any, str]:
            if halt.is_set():
                raise Stopped
            if time.monotonic() > until:
                raise HubTrouble(f"{self._order.wanted.endpoint} takes more than {LISTING_S:g} s to list files", 0)
            return self._connection.ask(url)

        return ask

    def _fetch(self, seen: Comparison, number: int, halt: threading.Event) -> None:
        place, order = self._place, self._order
        rest = gather(place, seen, self._owner)
        self._progress.have(seen.listing.size - sum(file.size for file in rest), len(seen.listing.files) - len(rest))
        _check_space(place, rest)
        mine = place.work(number, self._owner)
        make_folder(mine, parents=False)
        files = [PartFile(mine, file, order.limits.part_bytes) for file in rest]
        self._adopt(files, number)
        tree, commit = place.tree(seen.listing.key), seen.listing.commit
        work = [
            (file, self._hub.file_url(order.wanted, commit, file.remote.path), tree / file.remote.path)
            for file in files
        ]
        try:
            Fetcher(self._connection, order.limits, self._progress, halt).run(work)
        except (UserError, FileChanged):
            # A branch may have moved on since it was listed: then this is not the model's fault.
            if self._insist_on_listing(halt).key == seen.listing.key:
                raise
            raise NotWhole("a file that the hub has meanwhile replaced") from None

    def _adopt(self, files: list[PartFile], number: int) -> None:
        """Take over what dead processes left; what is copied is deleted at once, so that little space is needed."""
        for left in left_work(self._place, number):
            for file in files:
                if gained := file.adopt(left):
                    self._progress.have(gained)
                file.forget(left)
            shutil.rmtree(left, ignore_errors=True)


def _check_space(place: Place, files: tuple[RemoteFile, ...]) -> None:
    needed = sum(file.size for file in files)
    disk = os.statvfs(place.staging)
    free = disk.f_bavail * disk.f_frsize
    if disk.f_blocks and needed > free:
        raise UserError(
            "DownloadNoSpace", f"{size(needed)} are still to be fetched and the volume has {size(free)} free"
        )


@contextmanager
def _beating(
    claim: Claim, progress: Progress, stale_s: float, stop: threading.Event, halt: threading.Event
) -> Iterator[None]:
    """Renew the claim in the background; `halt` is set when it is lost or all is to stop."""
    ended = threading.Event()

    def beat() -> None:
        renewed_at = next_at = time.monotonic()
        while not ended.wait(0.1):
            if stop.is_set():
                halt.set()
            if time.monotonic() < next_at:
                continue
            next_at = time.monotonic() + stale_s / 6
            try:
                claim.renew(progress.snapshot())
                renewed_at = time.monotonic()
            except ClaimLost:
                halt.set()
            except OSError:  # a file server may be away for a while
                if time.monotonic() - renewed_at > stale_s / 2:
                    halt.set()

    thread = threading.Thread(target=beat, name="claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _spoken(path: str) -> Iterator[None]:
    """Errors of the volume as sentences."""
    try:
        yield
    except OSError as error:
        words = f"{error.strerror or error}"
        if error.errno in NO_SPACE:
            raise UserError("DownloadNoSpace", f"the volume is full: {words}") from error
        if error.errno in NOT_WRITABLE:
            name = Path(str(error.filename)).name if error.filename else path
            raise UserError(
                "DownloadNotWritable", f'user {os.getuid()} may not write "{name}" for the path "{path}": {words}'
            ) from error
        raise Retry(f"the volume failed: {words}", 0) from error
