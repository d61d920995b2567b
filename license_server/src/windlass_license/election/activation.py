"""Whether this replica answers: opens the service when it becomes the active one, closes it when it is no more.

A stand-by touches no data. The election is asked again and again on a thread of its own, so that neither a slow disk
nor a slow API server stops it. Called by `app`.
"""

import logging
import threading
from collections.abc import Callable

from windlass_license.election.data_lock import Election
from windlass_license.errors import NotNowError, StandByError
from windlass_license.service import LicenseService, Standing
from windlass_license.storage.commits import GroupCommit, Observe

log = logging.getLogger("windlass_license")
OpenService = Callable[[Callable[[], None]], LicenseService]
"""Makes the service; the argument is its fence."""
OPENINGS_FAILED = 3
"""So many in a row, and the process is to be started anew."""
PAUSE_PERIODS = 3
"""After a failed opening: another replica asks for the seat each period, so it comes first."""


class Active:
    """The service of the active replica, and how its jobs are committed."""

    def __init__(self, service: LicenseService, observe: Observe) -> None:
        self.service = service
        # An empty commit drops the leases that lapsed, and stores the time: also when no pod asks.
        self._commits = GroupCommit(service.commit, observe, service.ttl.total_seconds())
        self.run = self._commits.run

    def close(self) -> None:
        """Finish what was accepted, then close the store."""
        self._commits.close()
        self.service.close()


class Activation:
    """Active or stand-by, as the election has it."""

    def __init__(self, election: Election, open_service: OpenService) -> None:
        self._election, self._open = election, open_service
        self.observe: Observe = lambda size, seconds: None
        self._active: Active | None = None
        self._failed, self._why = 0, ""
        """Openings of the data that failed in a row, and the last reason."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def active(self) -> Active:
        """The service; StandByError on a replica that may not answer."""
        active = self._active
        if active is None or not self._election.valid():
            raise StandByError(f"this replica of the license server is a stand-by; active is {self._election.holder()}")
        return active

    def check_alive(self) -> None:
        """NotNowError when this process can become active no more: nobody asks the election, or its data stay shut."""
        thread = self._thread
        if thread is not None and not thread.is_alive() and not self._stop.is_set():
            raise NotNowError(
                "the election of the active replica has ended in this process; restart the license server"
            )
        if (failed := self._failed) >= OPENINGS_FAILED:
            raise NotNowError(
                f"this replica had the seat {failed} times and could not open its data: {self._why}; look at its volume"
            )

    def standing(self) -> Standing | None:
        """The active service's figures; None on a stand-by."""
        try:
            return self.active().service.standing()
        except StandByError:
            return None

    def step(self) -> None:
        """Ask the election once and become what it says."""
        if not self._election.attempt():
            self._step_down()
        elif self._active is None:
            self._active = self._opened()
            log.info("this replica is active")

    def start(self) -> None:
        """Go on asking until `stop`."""
        self._thread = threading.Thread(target=self._ask_on, name="activation", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the service, then leave the seat to another."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._step_down()
        self._election.release()

    def _ask_on(self) -> None:
        """Whatever a step raises: this replica would be a stand-by for ever without the next one."""
        seen, periods = "", 1
        while not self._stop.wait(self._election.period_s * periods):
            failed_before, periods = self._failed, 1
            try:
                self.step()
                if not self._failed:  # else it is a stand-by meanwhile, and the reason of the failures is in the log
                    seen = ""
            except Exception as error:
                # Nobody waits for this thread, so a fault goes to the log, and failed openings to `check_alive`.
                if repr(error) != seen:  # not the same every second
                    log.exception("this replica cannot ask whether it is the active one, or cannot become it")
                seen = repr(error)
                if self._failed > failed_before:
                    periods = PAUSE_PERIODS

    def _opened(self) -> Active:
        """The service, opened; when it cannot be, another replica gets the seat."""
        try:
            active = Active(self._open(self._fence), self.observe)
        except Exception as error:
            if not isinstance(error, StandByError):  # the seat was lost meanwhile: that says nothing about the data
                self._failed, self._why = self._failed + 1, str(error) or repr(error)
            self._election.release()
            raise
        self._failed = 0
        return active

    def _step_down(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.close()
            log.info("this replica is active no more")

    def _fence(self) -> None:
        if not self._election.valid():
            raise StandByError("this replica of the license server lost its seat; ask again")
