"""Active and stand-by: who answers, what a stand-by says, and that a deposed server grants nothing."""

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from windlass_base.kube.lease import LeaseName
from windlass_license.election.activation import Activation
from windlass_license.election.data_lock import FileLock
from windlass_license.election.kube_lease import KubeLease
from windlass_license.errors import NotNowError, SettingsError, StandByError
from windlass_license.http.app import create_app
from windlass_license.license_file.codec import sign
from windlass_license.settings import Settings
from windlass_testbed.waiting import HANG_S, wait_until

ASK = {"gpus": ["GPU-0"], "holder": {"uid": "u", "namespace": "demo", "pod": "p"}}


class Seat:
    """An election in the hands of the test."""

    period_s = 0.02
    mine = True

    def attempt(self) -> bool:
        return self.mine

    def valid(self) -> bool:
        return self.mine

    def release(self) -> None:
        self.mine = False

    def holder(self) -> str:
        return "another"


@pytest.fixture
def seat() -> Seat:
    return Seat()


@pytest.fixture
def client(server: Any, seat: Seat, tmp_path: Path) -> TestClient:
    """A server that is active as long as the seat says so, on a directory of its own."""
    settings = Settings(tmp_path / "seat", server.settings.public_keys)
    return TestClient(create_app(settings, election=seat))


def test_a_stand_by_answers_nothing_but_that_it_is_one(client: TestClient, seat: Seat) -> None:
    """Not ready, but alive; every question is told to ask again, and whom it is waiting for."""
    assert client.get("/readyz").text == "ok\n"
    seat.mine = False
    expected = {
        "reason": "StandBy",
        "message": "this replica of the license server is a stand-by; active is another",
    }
    for method, path in (
        ("GET", "/readyz"),
        ("GET", "/ls/view"),
        ("GET", "/ls/audit"),
        ("POST", "/ls"),
        ("POST", "/v1/leases"),
        ("DELETE", "/v1/leases/x"),
    ):
        reply = client.request(method, path, **({"json": ASK} if path == "/v1/leases" else {}))
        assert (reply.status_code, reply.json(), reply.headers["Retry-After"]) == (503, expected, "2"), path
    assert (client.get("/healthz").status_code, client.get("/").status_code) == (200, 200)
    metrics = client.get("/metrics").text
    assert "windlass_license_active 0.0" in metrics
    assert "gpus_licensed" not in metrics


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_seat_lost_around_the_commit(
    when: str, client: TestClient, seat: Seat, a_license: Callable[..., Any], signing_key: Any
) -> None:
    """No grant leaves the server when the seat was lost before the commit, nor while it was made."""
    client.post("/ls", files={"file": sign(a_license(days=36500), signing_key)})
    looks = iter([True] + [False] * 9 if when == "before" else [True, True] + [False] * 9)
    seat.valid = lambda: next(looks)  # type: ignore[method-assign]
    reply = client.post("/v1/leases", json=ASK)
    assert (reply.status_code, reply.json()["reason"]) == (503, "StandBy")


def test_active_stand_by_and_active_again(
    server: Any, seat: Seat, tmp_path: Path, a_license: Callable[..., Any], signing_key: Any
) -> None:
    """A server that gets its seat back goes on with what is stored."""
    settings = Settings(tmp_path / "seat", server.settings.public_keys)
    with TestClient(create_app(settings, election=seat)) as client:
        client.post("/ls", files={"file": sign(a_license(days=36500), signing_key)})
        first = client.post("/v1/leases", json=ASK).json()
        for mine, status in ((False, 503), (True, 200)):
            seat.mine = mine
            wait_until(lambda status=status: client.get("/readyz").status_code == status)  # type: ignore[misc]
        again = client.post("/v1/leases", json=ASK).json()
        assert (again["state"], again["lease"]) == ("renewed", first["lease"])


class Raising(Seat):
    """An election that fails as nobody foresaw."""

    error: BaseException | None = None
    attempts = 0

    def attempt(self) -> bool:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_election_outlives_any_exception(server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once, not every period, and once more when it comes again; then the replica is active as before."""
    seat = Raising()
    with TestClient(create_app(Settings(tmp_path / "seat", server.settings.public_keys), election=seat)) as client:
        for name in ("metadata", "metadata"):
            seat.error, before = KeyError(name), seat.attempts
            wait_until(lambda before=before: seat.attempts > before + 5)  # type: ignore[misc]
            seat.error, before = None, seat.attempts
            wait_until(lambda before=before: seat.attempts > before + 2)  # type: ignore[misc]
        assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (200, 200)
    assert caplog.text.count("this replica cannot ask whether it is the active one") == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_liveness_fails_when_the_election_has_ended(server: Any, tmp_path: Path) -> None:
    """A server that can never become active again is to be started anew."""
    seat = Raising()
    with TestClient(create_app(Settings(tmp_path / "seat", server.settings.public_keys), election=seat)) as client:
        assert client.get("/healthz").text == "ok\n"
        seat.error = SystemExit()
        wait_until(lambda: client.get("/healthz").status_code == 503)
        assert "restart" in client.get("/healthz").json()["message"]
        seat.mine = False
        assert client.get("/healthz").status_code == 503


class OddApi:
    """Keeps one Lease; `odd` is answered instead of everything when it is set."""

    odd: Any = None
    lease: dict[str, Any] | None = None
    version = odd_answers = 0

    def call(self, method: str, _: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """As `KubeApi`."""
        if self.odd is not None:
            self.odd_answers += 1
            return 200, self.odd
        if method == "GET" or body is None:
            return (200, self.lease) if self.lease else (404, {})
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return 200, self.lease


class NoService:
    """A service that is opened and closed."""

    commit = None
    ttl = timedelta(seconds=60)

    def close(self) -> None:
        """Nothing is open."""


class Leaving(Seat):
    """A seat that can be left and taken again; `left` counts."""

    left = 0

    def attempt(self) -> bool:
        self.mine = True
        return True

    def release(self) -> None:
        self.left, self.mine = self.left + 1, False


def test_data_that_cannot_be_opened() -> None:
    """The seat goes to another each time; liveness fails after three in a row, and not after one that went well."""
    seat, damaged = Leaving(), SettingsError("license.sqlite3 is damaged")
    outcomes: list[Any] = [damaged, damaged, NoService(), damaged, damaged, damaged, NoService()]

    def open_service(_: object) -> Any:
        outcome = outcomes.pop(0)
        return _raise(outcome) if outcome is damaged else outcome

    activation = Activation(seat, open_service)
    for left in (1, 2, None, 3, 4):
        if left is None:
            activation.step()
            activation.stop()  # the next opening is another active time
            seat.left = 2
            continue
        with pytest.raises(SettingsError):
            activation.step()
        assert (seat.left, seat.mine) == (left, False)
        activation.check_alive()
    with pytest.raises(SettingsError):
        activation.step()
    with pytest.raises(NotNowError, match=r"had the seat 3 times .*: license.sqlite3 is damaged; look at its volume"):
        activation.check_alive()
    activation.step()
    activation.check_alive()
    activation.stop()


class SimulatedPauses(threading.Event):
    """Ends each pause at once and adds up their seconds."""

    now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()


def test_between_openings_that_fail_there_is_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    """So that another replica comes first. Each reason is logged once, also when this was a stand-by meanwhile."""
    stop = SimulatedPauses()
    begun, reasons = list[float](), ["damaged", "damaged", "full", "full"]

    class Taken(Leaving):
        """Another replica has the seat each second time."""

        attempts = 0

        def attempt(self) -> bool:
            self.attempts += 1
            self.mine = self.attempts % 2 == 0
            return self.mine

    seat = Taken()

    def open_service(_: object) -> Any:
        begun.append(stop.now_s)
        if len(begun) > len(reasons):
            stop.set()  # the election ends with the opening that does not fail
            return NoService()
        return _raise(SettingsError(reasons[len(begun) - 1]))

    activation = Activation(seat, open_service)
    activation._stop = stop
    activation.start()
    assert activation._thread is not None
    activation._thread.join(HANG_S)
    activation.stop()
    # A pause of three periods, and one period of the stand-by.
    between = [after - before for before, after in itertools.pairwise(begun)]
    assert between == pytest.approx([4 * seat.period_s] * len(reasons))
    shown = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert shown == ["damaged", "full"]


def test_a_seat_lost_while_the_data_are_opened_says_nothing_about_them() -> None:
    """The next try may do."""
    activation = Activation(Leaving(), lambda fence: _raise(StandByError("lost")))
    for _ in range(4):
        with pytest.raises(StandByError):
            activation.step()
    activation.check_alive()


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("odd", [{}, [], {"metadata": None}], ids=repr)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_odd_answers_of_the_api_server_end_no_election(odd: Any) -> None:
    """A 200 without a Lease is as no answer; the Lease is renewed after it."""
    api: Any = OddApi()
    election = KubeLease(api, LeaseName("n", "l", "me"))
    election.period_s = 0.02
    service: Any = NoService()
    activation = Activation(election, lambda _: service)
    activation.step()
    activation.start()
    wait_until(lambda: api.version > 2)
    api.odd = odd
    wait_until(lambda: api.odd_answers > 5)
    api.odd, before = None, api.version
    wait_until(lambda: api.version > before + 2)
    wait_until(election.valid)
    activation.stop()


def test_file_lock(tmp_path: Path) -> None:
    """One at a time; the lock is free again when its holder lets go."""
    one, two = FileLock(tmp_path / "data"), FileLock(tmp_path / "data")
    assert (one.attempt(), one.attempt(), two.attempt()) == (True, True, False)
    assert two.holder().startswith("process ")
    assert (one.valid(), two.valid()) == (True, False)
    one.release()
    assert (one.valid(), two.attempt()) == (False, True)
    two.release()


def test_lock_in_an_unusable_directory(tmp_path: Path) -> None:
    """The message names the directory and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"cannot keep licenses in .*file/data.*writable directory"):
        FileLock(tmp_path / "file" / "data").attempt()
