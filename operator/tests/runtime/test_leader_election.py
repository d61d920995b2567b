"""The Lease: decided by observed change, held no longer than was promised, let go at once when asked."""

from __future__ import annotations

import json

import pytest
from windlass_base.kube.lease import Act, LeaseName, LeaseReply, LeaseTimes, Seen, decide, observed, written
from windlass_operator.cluster.rest import StatusError
from windlass_operator.runtime.leader_election import LeaderElection

TIMES = LeaseTimes()


def seen(holder="other", since=0.0, version="1"):
    return Seen(version, holder, 15.0, since)


CASES = {
    "no lease": (None, 0.0, Act.TAKE),
    "released": (seen(""), 0.0, Act.TAKE),
    "mine": (seen("me"), 99.0, Act.RENEW),
    "another's, fresh": (seen(since=10.0), 25.0, Act.WAIT),
    "another's, silent for too long": (seen(since=10.0), 25.1, Act.TAKE),
}


@pytest.mark.parametrize(("lease", "now", "act"), CASES.values(), ids=CASES.keys())
def test_what_to_do_follows_from_what_was_seen(lease, now, act):
    assert decide(lease, "me", now) is act


def live(version="1", holder="other", renewed="2026-01-01T00:00:00.000000Z"):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": "l", "resourceVersion": version}, "spec": spec}


def test_time_runs_from_the_last_change_not_from_the_holder_s_clock():
    """A clock that is hours off moves nothing."""
    first = observed(None, live(renewed="1999-01-01T00:00:00Z"), 100.0)
    assert observed(first, live(renewed="1999-01-01T00:00:00Z"), 108.0).since == 100.0
    assert observed(first, live(version="2"), 108.0).since == 108.0


def test_a_new_holder_is_a_transition_and_a_renewal_is_not():
    taken = written(live(), "l", "me", TIMES, "now")["spec"]
    assert (taken["holderIdentity"], taken["leaseTransitions"], taken["acquireTime"]) == ("me", 1, "now")
    again = written({**live(), "spec": taken}, "l", "me", TIMES, "later")["spec"]
    assert (again["leaseTransitions"], again["acquireTime"], again["renewTime"]) == (1, "now", "later")
    released = written({**live(), "spec": again}, "l", "", TIMES, "end")["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"], released["leaseTransitions"]) == ("", 1, 1)


def test_no_write_can_meet_one_of_the_successor():
    """What begins before the deadline has ended before the others may take over."""
    assert TIMES.deadline_s + TIMES.request_s < TIMES.duration_s
    assert TIMES.renew_s * 2 < TIMES.deadline_s


class Server:
    """One Lease, with versions; `down` refuses everything, `deaf` does what it is asked and does not answer."""

    def __init__(self):
        self.lease, self.version, self.down, self.deaf = None, 0, False, False

    async def call(self, method, path, params=None, body=None, content_type=""):
        if self.down:
            raise TimeoutError
        if method == "GET":
            if self.lease is None:
                raise StatusError(404, b"{}")
            return json.dumps(self.lease).encode()
        known = body["metadata"].get("resourceVersion")
        if known != (str(self.version) if self.lease else None):
            raise StatusError(409, b"{}")
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        if self.deaf:
            raise TimeoutError
        return json.dumps(self.lease).encode()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def cluster():
    server, clock = Server(), Clock()
    election = lambda me: LeaderElection(server, LeaseName("ns", "l", me), TIMES, clock)  # noqa: E731
    return server, clock, election("one"), election("two")


async def test_one_holds_and_the_other_waits(cluster):
    _, _, one, two = cluster
    assert not one.holds()
    await one.attempt()
    await two.attempt()
    assert (one.holds(), two.holds()) == (True, False)


async def test_a_holder_that_cannot_renew_stops_before_the_other_begins(cluster):
    """At every moment at most one may write."""
    server, clock, one, two = cluster
    await one.attempt()
    await two.attempt()
    ends = begins = None
    for _ in range(40):
        clock.now += 0.5
        await two.attempt()
        assert not (one.holds() and two.holds())
        ends = ends or (None if one.holds() else clock.now)
        begins = begins or (clock.now if two.holds() else None)
    assert (ends, begins) == (1000.0 + TIMES.deadline_s, 1000.0 + TIMES.duration_s + 0.5)
    await one.attempt()
    assert not one.holds()
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_an_api_server_that_is_down_ends_the_leadership(cluster):
    server, clock, one, _ = cluster
    await one.attempt()
    server.down = True
    clock.now += TIMES.deadline_s - 0.1
    await one.attempt()
    assert one.holds()
    clock.now += 0.2
    assert not one.holds()
    server.down = False
    await one.attempt()
    assert one.holds()


async def test_a_deleted_lease_stays_its_holders(cluster):
    """The holder makes it anew, whoever deletes it, and at no moment two may write."""
    server, clock, one, two = cluster
    await one.attempt()
    await two.attempt()
    server.lease = None
    for _ in range(20):
        clock.now += 1
        await two.attempt()
        assert not (one.holds() and two.holds())
        await one.attempt()
        assert not two.holds()
    assert one.holds()
    assert server.lease["spec"]["holderIdentity"] == "one"


async def test_a_deleted_lease_of_a_holder_that_is_gone_is_taken(cluster):
    """After the time that it would have lasted."""
    server, clock, one, two = cluster
    await one.attempt()
    await two.attempt()
    server.lease = None
    await two.attempt()
    clock.now += TIMES.duration_s
    await two.attempt()
    assert not two.holds()
    clock.now += 0.1
    await two.attempt()
    assert (one.holds(), two.holds()) == (False, True)


async def test_a_release_is_taken_up_at_the_next_look(cluster):
    _, _, one, two = cluster
    await one.attempt()
    await two.attempt()
    await one.release()
    assert not one.holds()
    await two.attempt()
    assert two.holds()


async def test_of_two_that_take_at_once_one_wins(cluster):
    """The version decides; the loser sees at once who won."""
    server, clock, one, two = cluster
    await one.attempt()
    await two.attempt()
    clock.now += TIMES.duration_s + 1
    stale = dict(server.lease)
    await one.attempt()
    steps = two._lease.attempt()
    assert next(steps).method == "GET"
    write = steps.send(LeaseReply(200, stale))
    assert (write.method, write.body["spec"]["holderIdentity"]) == ("PUT", "two")
    assert steps.send(LeaseReply(409)).method == "GET"
    with pytest.raises(StopIteration):
        steps.send(LeaseReply(200, server.lease))
    assert (one.holds(), two.holds(), two._lease.holder()) == (True, False, "one")


async def test_a_renewal_whose_answer_is_lost_costs_nothing(cluster):
    """The Lease is read before it is written again: the version that is known is no longer the Lease's."""
    server, clock, one, _ = cluster
    await one.attempt()
    server.deaf = True
    clock.now += 2
    await one.attempt()
    server.deaf = False
    for _ in range(3):
        clock.now += 2
        await one.attempt()
        assert one.holds()
    assert server.lease["spec"]["leaseTransitions"] == 0


DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


@pytest.mark.parametrize(
    "odd",
    [b"{}", b"[]", b"null", b"proxy", b'{"metadata": {}}', b'{"metadata":{"name":"\xff"}}', DEEP],
    ids=lambda odd: repr(odd[:40]),
)
async def test_an_odd_answer_is_no_answer(cluster, odd, caplog):
    """A 200 that holds no Lease ends neither the attempt loop nor, before its deadline, the leadership."""
    caplog.set_level("INFO")
    server, _, one, _ = cluster
    await one.attempt()
    usual = server.call

    async def answer(*args, **kwargs):
        return odd

    server.call = answer
    await one.attempt()
    await one.release()
    assert "the lease ns/l cannot be had: " in caplog.text
    server.call = usual
    await one.attempt()
    assert one.holds()
