"""Odd answers of an API server: none of them counts as a Lease, and the election goes on after each."""

from __future__ import annotations

from typing import Any

import pytest
from windlass_base.kube.lease import Lease, LeaseCall, LeaseName, LeaseReply, Steps
from windlass_base.kube.service_account import KubeError


def live(version: str = "1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l", "resourceVersion": version}, "spec": spec}


ODD: dict[str, Any] = {
    "empty": {},
    "a list": [],
    "null": None,
    "a text": "ok",
    "metadata of another shape": {"metadata": "l"},
    "no version": {"metadata": {"name": "l"}, "spec": {}},
    "a version of another shape": {"metadata": {"resourceVersion": {}}},
    "a spec of another shape": {"metadata": {"resourceVersion": "1"}, "spec": ["holderIdentity"]},
    "a duration in words": live(leaseDurationSeconds="soon"),
    "no duration at all": live(leaseDurationSeconds=float("nan")),
    "transitions in words": live(leaseTransitions="many"),
    "a holder of another shape": live(holderIdentity={"name": "other"}),
}


def run(steps: Steps, *answers: LeaseReply) -> list[LeaseCall]:
    """The requests, each with the next of these answers."""
    asked, left = [], list(answers)
    try:
        request = next(steps)
        while True:
            asked.append(request)
            request = steps.send(left.pop(0))
    except StopIteration:
        return asked


@pytest.fixture
def lease() -> Lease:
    return Lease(LeaseName("ns", "l", "me"), clock=lambda: 100.0)


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_answer_to_a_read(answer: Any, lease: Lease) -> None:
    """It names the Lease and what was answered; the next attempt reads anew, and takes the Lease."""
    with pytest.raises(KubeError, match=r"Lease ns/l: the API server's answer holds no Lease"):
        run(lease.attempt(), LeaseReply(200, answer))
    assert not lease.holds()
    done = run(lease.attempt(), LeaseReply(200, live()), LeaseReply(200, live("2", holderIdentity="me")))
    assert [call.method for call in done] == ["GET", "PUT"]
    assert lease.holds()


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_an_odd_answer_to_a_write(answer: Any, lease: Lease) -> None:
    """The write may have happened: a holder reads before it writes again, and stays one until its deadline."""
    mine = live("2", holderIdentity="me")
    run(lease.attempt(), LeaseReply(200, live()), LeaseReply(200, mine))
    with pytest.raises(KubeError):
        run(lease.attempt(), LeaseReply(200, answer))
    assert lease.holds()
    done = run(lease.attempt(), LeaseReply(200, mine), LeaseReply(200, live("3", holderIdentity="me")))
    assert [call.method for call in done] == ["GET", "PUT"]
