"""The rules, one row each, and then all of them against random histories."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from windlass_license.rules.book import LeaseBook, physical
from windlass_license.rules.gate import gate, name_gpus
from windlass_license.rules.model import Holder, Lease, LeaseRequest, License, LicensedGpu, Refusal, State, Verdict

NOW = datetime(2026, 9, 6, 10, 0, tzinfo=UTC)
TTL = timedelta(seconds=60)
MakeLicense = Callable[..., License]


def ask(*gpus: str, uid: str = "u1") -> LeaseRequest:
    return LeaseRequest(gpus, Holder("demo", f"pod-{uid}", uid))


def lease(*gpus: str, uid: str = "u1", left_s: float = 30) -> Lease:
    request = ask(*gpus, uid=uid)
    return Lease(f"lease-{uid}", request.gpus, request.holder, NOW, NOW + timedelta(seconds=left_s))


def judge(license_: License | None, leases: Iterable[Lease], request: LeaseRequest, now: datetime) -> Verdict:
    """The gate on a book of these leases, the lapsed ones dropped."""
    book = LeaseBook(license_, leases)
    book.take_lapsed(now)
    return gate(book, request, now)


DAY = timedelta(days=1)
CASES: dict[str, tuple[dict[str, object], list[Lease], LeaseRequest, timedelta, object]] = {
    "first": ({}, [], ask("GPU-0"), 0 * DAY, State.GRANTED),
    "several": ({}, [], ask("GPU-0", "GPU-1"), 0 * DAY, State.GRANTED),
    "renewal": ({}, [lease("GPU-0")], ask("GPU-0"), 0 * DAY, State.RENEWED),
    "renewal in another order": ({}, [lease("GPU-0", "GPU-1")], ask("GPU-1", "GPU-0"), 0 * DAY, State.RENEWED),
    "lapsed lease asks anew": ({}, [lease("GPU-0", left_s=0)], ask("GPU-0"), 0 * DAY, State.GRANTED),
    "one of two unlicensed": ({}, [], ask("GPU-0", "GPU-9"), 0 * DAY, Refusal.UNLICENSED),
    "renewal of a GPU that the new license omits": (
        {},
        [lease("GPU-9")],
        ask("GPU-9"),
        0 * DAY,
        Refusal.UNLICENSED,
    ),
    "at the moment of expiry": ({}, [], ask("GPU-0"), 30 * DAY, Refusal.EXPIRED),
    "just before expiry": ({}, [], ask("GPU-0"), 30 * DAY - TTL, State.GRANTED),
    "at the limit": ({"limit": 1}, [], ask("GPU-0"), 0 * DAY, State.GRANTED),
    "over the limit": ({"limit": 1}, [lease("GPU-0")], ask("GPU-1", uid="u2"), 0 * DAY, Refusal.LIMIT_REACHED),
    "all or nothing": ({"limit": 1}, [], ask("GPU-0", "GPU-1"), 0 * DAY, Refusal.LIMIT_REACHED),
    "renewal at the limit": ({"limit": 1}, [lease("GPU-0")], ask("GPU-0"), 0 * DAY, State.RENEWED),
    "a lapsed lease frees its seat": (
        {"limit": 1},
        [lease("GPU-0", left_s=0)],
        ask("GPU-1", uid="u2"),
        0 * DAY,
        State.GRANTED,
    ),
    "a shared GPU counts once": ({"limit": 1}, [lease("GPU-0")], ask("GPU-0", uid="u2"), 0 * DAY, State.GRANTED),
    "a lowered limit evicts nobody": (
        {"limit": 1},
        [lease("GPU-0"), lease("GPU-1", uid="u2")],
        ask("GPU-1", uid="u2"),
        0 * DAY,
        State.RENEWED,
    ),
    "a lowered limit holds back a third": (
        {"limit": 1},
        [lease("GPU-0"), lease("GPU-1", uid="u2")],
        ask("GPU-1", uid="u3"),
        0 * DAY,
        Refusal.LIMIT_REACHED,
    ),
}


@pytest.mark.parametrize(("terms", "leases", "request_", "later", "expected"), CASES.values(), ids=CASES)
def test_gate(
    terms: dict[str, object],
    leases: list[Lease],
    request_: LeaseRequest,
    later: timedelta,
    expected: object,
    a_license: MakeLicense,
) -> None:
    """Each rule with its smallest case, on a license for GPU-0 and GPU-1."""
    verdict = judge(a_license(2, **terms), leases, request_, NOW + later)
    assert expected == (verdict.reason or verdict.state)


def test_no_license() -> None:
    """Before the first upload nothing runs, and the message says what to do."""
    verdict = judge(None, [], ask("GPU-0"), NOW)
    assert (verdict.reason, verdict.gpus) == (Refusal.NO_LICENSE, ("GPU-0",))
    assert "POST /ls" in verdict.message


def test_unlicensed_message(a_license: MakeLicense) -> None:
    """The sentence names the GPUs, the customer and the remedy."""
    verdict = judge(a_license(2), [], ask("GPU-7", "GPU-0", "GPU-8"), NOW)
    assert verdict.gpus == ("GPU-7", "GPU-8")
    assert verdict.message == (
        "GPUs GPU-7, GPU-8 are not in the license in force (customer leolingli, 2 GPUs); "
        "upload a license that names them"
    )


def test_limit_message(a_license: MakeLicense) -> None:
    """The sentence counts the holders and names none of them."""
    live = [lease("GPU-0", uid="a"), lease("GPU-1", uid="b")]
    verdict = judge(a_license(3, limit=2), live, ask("GPU-2", uid="c"), NOW)
    assert verdict.message == (
        "the license allows 2 GPUs at a time and 2 are in use by 2 pods; "
        "demo/pod-c asks for 1: it waits until enough are free or the license allows more"
    )


def test_renewal_after_expiry(a_license: MakeLicense) -> None:
    """A serving pod goes on and is told; a new pod is refused; a license may say otherwise."""
    later = NOW + timedelta(days=31)
    held = replace(lease("GPU-0"), expires=later + TTL)
    renewal = judge(a_license(2), [held], ask("GPU-0"), later)
    assert (renewal.state, renewal.expired, renewal.renews) == (State.RENEWED, True, held)
    assert judge(a_license(2), [held], ask("GPU-1"), later).reason is Refusal.EXPIRED
    strict = judge(a_license(2, renew_after_expiry=False), [held], ask("GPU-0"), later)
    assert strict.reason is Refusal.EXPIRED


def test_one_gpu_of_several_expired(a_license: MakeLicense) -> None:
    """Only the expired GPUs are named."""
    license_ = a_license(2)
    first, second = license_.gpus
    mixed = replace(license_, gpus=(replace(first, expires=NOW), second))
    verdict = judge(mixed, [], ask("GPU-0", "GPU-1"), NOW)
    assert (verdict.reason, verdict.gpus) == (Refusal.EXPIRED, ("GPU-0",))


def test_mig_slices_count_as_their_gpu() -> None:
    """Slices of one GPU are licensed with it and take one seat together; old names carry their GPU inside."""
    end = NOW + DAY
    rows = (LicensedGpu("GPU-a", "A100", NOW, end, ("MIG-1", "MIG-2")), LicensedGpu("GPU-b", "A100", NOW, end))
    license_ = License("1", "c", 1, rows)
    assert judge(license_, [lease("MIG-1")], ask("MIG-2", uid="u2"), NOW).state is State.GRANTED
    assert judge(license_, [lease("MIG-1")], ask("MIG-GPU-a/1/0", uid="u2"), NOW).state is State.GRANTED
    assert judge(license_, [lease("MIG-1")], ask("GPU-b", uid="u2"), NOW).reason is Refusal.LIMIT_REACHED


def test_long_lists_are_cut() -> None:
    """A message stays readable when a pod has many GPUs."""
    assert name_gpus(tuple(f"GPU-{n}" for n in range(10))).endswith("GPU-7 and 2 more")


class Histories(RuleBasedStateMachine):
    """Pods come, renew, go and die while licenses change: the gate keeps its promises after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.license: License | None = None
        self.leases: dict[tuple[str, tuple[str, ...]], Lease] = {}

    @rule(count=st.integers(1, 6), limit=st.integers(0, 4), life_s=st.integers(1, 600))
    def install(self, count: int, limit: int, life_s: int) -> None:
        """Upload a license; only when no pod runs, so that the limit is the license's own."""
        self.leases = {}
        end = self.now + timedelta(seconds=life_s)
        rows = tuple(LicensedGpu(f"GPU-{n}", "L20", NOW, end) for n in range(count))
        self.license = License("1", "c", limit, rows)

    @rule(uid=st.sampled_from("abcdef"), gpus=st.sets(st.integers(0, 7), min_size=1, max_size=3))
    def request(self, uid: str, gpus: set[int]) -> None:
        """Ask and keep the outcome as the store would."""
        request = ask(*(f"GPU-{n}" for n in gpus), uid=uid)
        verdict = judge(self.license, self.leases.values(), request, self.now)
        key = (uid, request.gpus)
        if verdict.state is State.REFUSED:
            assert verdict.gpus
            assert set(verdict.gpus) <= set(request.gpus)
            return
        assert self.license is not None
        known = {gpu.uuid: gpu.expires for gpu in self.license.gpus}
        assert set(request.gpus) <= set(known)
        if verdict.state is State.GRANTED:
            assert all(known[gpu] > self.now for gpu in request.gpus)
        else:
            # A lapsed lease is renewed after the license's end only; its own grace of a day is longer than any history.
            assert self.leases[key].expires > self.now or verdict.expired
            assert verdict.expired == any(known[gpu] <= self.now for gpu in request.gpus)
        name = "/".join((uid, *request.gpus))  # a lease of its own, as the service gives ids
        self.leases[key] = Lease(name, request.gpus, request.holder, self.now, self.now + TTL)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """A pod ends."""
        del self.leases[data.draw(st.sampled_from(sorted(self.leases)))]

    @rule(seconds=st.integers(1, 90))
    def wait(self, seconds: int) -> None:
        """Time passes; leases may lapse."""
        self.now += timedelta(seconds=seconds)

    @invariant()
    def never_more_live_gpus_than_the_limit(self) -> None:
        """The one promise that was paid for."""
        if self.license is not None and self.license.limit:
            live = [lease for lease in self.leases.values() if lease.expires > self.now]
            used = {physical(self.license, gpu) for lease in live for gpu in lease.gpus}
            assert len(used) <= self.license.limit


Histories.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHistories = Histories.TestCase
