"""Any history of the real service and store: requests, uploads, crashes, take-overs, dates set forwards and back.

The machine keeps its own short account of what was promised, and holds the service to it after every step.
"""

import sqlite3
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from windlass_license.clock import GuardedClock
from windlass_license.errors import StandByError, StoreError
from windlass_license.license_file.codec import sign
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import Holder, LeaseRequest, License, LicensedGpu, Refusal, State
from windlass_license.service import Answer, LicenseService, Round, Rules
from windlass_license.storage import store as store_module
from windlass_license.storage.store import Store

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
START = datetime(2026, 9, 6, 10, 0, tzinfo=UTC)
TTL_S = 60
GPUS = tuple(f"GPU-{n}" for n in range(8))
Question = tuple[str, tuple[str, ...]]


@dataclass
class Promise:
    """A lease that a pod was told of, and for how long the server must run before it may lapse."""

    lease: str
    left_s: float


class Histories(RuleBasedStateMachine):
    """One data directory, one service at a time, a rival now and then."""

    @initialize()
    def begin(self) -> None:
        """An empty directory."""
        self.folder = tempfile.TemporaryDirectory()
        self.wall_s, self.monotonic_s = START.timestamp(), 1000.0
        self.latest = START
        self.license: License | None = None
        self.promises: dict[Question, Promise] = {}
        self.service = self.open()

    def open(self) -> LicenseService:
        """A service that becomes the active one, as a new process does."""
        store = Store(Path(self.folder.name))
        with store.transaction() as tx:
            floor = tx.last_seen()
        clock = GuardedClock(floor, lambda: self.wall_s, lambda: self.monotonic_s)
        return LicenseService(store, clock, Rules(by_id([KEY.public_key()]), timedelta(seconds=TTL_S)))

    def teardown(self) -> None:
        """Close what is open."""
        if hasattr(self, "service"):
            self.service.close()
            self.folder.cleanup()

    @rule(count=st.integers(1, 8), limit=st.integers(0, 4), life_s=st.integers(1, 3600))
    def upload(self, count: int, limit: int, life_s: int) -> None:
        """Replace the license; its limit may be lower than what is in use."""
        end = self.service.standing().now + timedelta(seconds=life_s)
        rows = tuple(LicensedGpu(gpu, "L20", START, end) for gpu in GPUS[:count])
        license_, install = self.service.upload(sign(License("1", "c", limit, rows), KEY))
        self.service.commit([install])
        self.license = license_
        self.look()

    @rule(
        asked=st.lists(
            st.tuples(st.sampled_from("abcdef"), st.sets(st.sampled_from(GPUS), min_size=1, max_size=3)),
            min_size=1,
            max_size=5,
        )
    )
    def ask(self, asked: list[tuple[str, set[str]]]) -> None:
        """Several requests share a commit."""
        before = self.latest
        requests = [LeaseRequest(tuple(gpus), Holder("demo", f"pod-{uid}", uid)) for uid, gpus in asked]
        answers = self.service.commit([self.service.lease(request) for request in requests])
        for request, answer in zip(requests, answers, strict=True):
            self.judge(request, answer, before)
        self.look()

    def judge(self, request: LeaseRequest, answer: Answer, before: datetime) -> None:
        """Hold one answer to what was promised and to the license."""
        key = (request.holder.uid, request.gpus)
        promise = self.promises.get(key)
        covered = self.license is not None and all(self.license.covering(gpu) for gpu in request.gpus)
        if answer.lease is None:
            assert promise is None or promise.left_s <= 0 or not covered, f"{key} lost its seat: {answer.verdict}"
            if not covered:
                assert answer.verdict.reason in (Refusal.NO_LICENSE, Refusal.UNLICENSED)
            return
        assert covered
        assert self.license is not None
        back = promise is not None and promise.left_s <= 0 and answer.verdict.expired
        if answer.verdict.state is State.GRANTED:
            assert promise is None or promise.left_s <= 0
            assert all(gpu.expires > before for gpu in self.license.gpus if gpu.uuid in request.gpus)
        if answer.verdict.state is State.GRANTED or back:
            used = {gpu for (_, gpus), other in self.promises.items() if other.left_s > 0 for gpu in gpus}
            assert not self.license.limit or len(used | set(request.gpus)) <= self.license.limit
        if answer.verdict.state is State.RENEWED:
            assert promise is not None, f"{key} holds a lease that it was never granted"
            assert answer.lease.id == promise.lease
        self.promises[key] = Promise(answer.lease.id, TTL_S)

    @precondition(lambda self: self.promises)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A pod ends."""
        key = data.draw(st.sampled_from(sorted(self.promises)))
        self.service.commit([self.service.release(self.promises.pop(key).lease)])
        self.look()

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        """Time passes; pods that do not renew lapse."""
        self.wall_s += seconds
        self.monotonic_s += seconds
        for promise in self.promises.values():
            promise.left_s -= seconds

    @rule(seconds=st.one_of(st.integers(20, 600), st.integers(-7200, -1)))
    def set_the_date(self, seconds: int) -> None:
        """No time passes, whatever the wall clock says."""
        self.wall_s += seconds

    @rule(away_s=st.integers(0, 900))
    def crash_and_restart(self, away_s: int) -> None:
        """The process ends between two commits and comes back later, on a machine whose monotonic clock is another."""
        self.service.close()
        self.wall_s += away_s
        self.monotonic_s = 5.0
        self.service = self.open()
        self.look()

    @rule(uid=st.sampled_from("abcdef"))
    def crash_in_a_commit(self, uid: str) -> None:
        """The disk fails when requests were decided but not stored: none of them happened."""

        def fail(_: Round) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        doomed = self.service.lease(LeaseRequest(GPUS[:1], Holder("demo", "pod", uid)))
        self.service.commit([])
        before = self.service.standing().leases
        with pytest.raises(StoreError, match="disk I/O error"):
            self.service.commit([doomed, fail])
        self.service.commit([])
        assert self.service.standing().leases == before

    @rule()
    def take_over(self) -> None:
        """Another replica becomes active while this one is paused; woken up, this one changes nothing."""
        rival = self.open()
        stale = self.service.lease(LeaseRequest(GPUS[:1], Holder("demo", "pod", "late")))
        with pytest.raises(StandByError):
            self.service.commit([stale])
        self.service.close()
        self.service = rival
        self.look()

    def look(self) -> None:
        """Note how late it is by the service's own word; it never goes back."""
        assert self.service.license_in_force() == self.license
        now = self.service.standing().now
        assert now >= self.latest
        self.latest = now


Histories.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class TestHistories(Histories.TestCase):
    """Without waiting for the disk: what is on it after a crash is the crash run's matter."""

    @pytest.fixture(autouse=True)
    def fast_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store_module, "SYNCHRONOUS", "OFF")
