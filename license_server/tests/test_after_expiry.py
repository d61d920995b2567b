"""A pod that serves when its license ends goes on within the grace, also when it missed a renewal meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from windlass_license.rules.lapsed import Lapsed
from windlass_license.rules.model import Holder, Lease, LeaseRequest

TTL_S, LIFE_S = 60, 30


@pytest.fixture
def late(server: Any, a_license: Callable[..., Any], clocks: Any) -> Callable[..., Any]:
    """`late(100)`: pod a leased GPU-0, the license ended, and nobody heard of the pod for so many seconds."""

    def make(silent_s: float, **terms: Any) -> Any:
        server.upload(a_license(3, days=LIFE_S / 86400, **terms))
        assert server.ask("GPU-0", uid="a")["state"] == "granted"
        clocks.advance(silent_s)
        assert server.ask("GPU-1", uid="b")["reason"] == "Expired"
        return server

    return make


def test_a_pod_without_a_network_for_a_while_goes_on(late: Callable[..., Any], clocks: Any) -> None:
    """Its lease has lapsed; it is renewed under the same id, marked as expired, and renewed again."""
    server = late(TTL_S + 10)
    back = server.ask("GPU-0", uid="a")
    assert (back["state"], back.get("expired")) == ("renewed", True), back
    clocks.advance(TTL_S - 1)
    assert server.ask("GPU-0", uid="a")["lease"] == back["lease"]
    assert server.audit_events() == ["uploaded", "granted", "lapsed", "refused", "granted"]


def test_a_second_silence_is_like_the_first(late: Callable[..., Any], clocks: Any) -> None:
    """Each renewal begins the grace anew, as it does for the pod."""
    server = late(TTL_S + 10, grace_s=300)
    for _ in range(3):
        assert server.ask("GPU-0", uid="a")["state"] == "renewed"
        clocks.advance(TTL_S + 299)


REFUSED: dict[str, tuple[float, dict[str, Any], str, str]] = {
    "the license forbids it": (100, {"renew_after_expiry": False}, "GPU-0", "a"),
    "the grace is over": (TTL_S + 301, {"grace_s": 300}, "GPU-0", "a"),
    "another pod": (100, {}, "GPU-0", "c"),
    "another GPU": (100, {}, "GPU-2", "a"),
}


@pytest.mark.parametrize(("silent_s", "terms", "gpu", "uid"), REFUSED.values(), ids=REFUSED)
def test_nobody_else_comes_in(
    silent_s: float, terms: dict[str, Any], gpu: str, uid: str, late: Callable[..., Any]
) -> None:
    """An ended license starts nothing."""
    assert late(silent_s, **terms).ask(gpu, uid=uid)["reason"] == "Expired"


def test_what_was_given_back_does_not_come_back(late: Callable[..., Any]) -> None:
    """A pod that ended its lease is no serving pod."""
    server = late(TTL_S + 10)
    back = server.ask("GPU-0", uid="a")
    server.client.delete(f"/v1/leases/{back['lease']}")
    assert server.ask("GPU-0", uid="a")["reason"] == "Expired"


@pytest.mark.parametrize(("shown", "goes_on"), [("its own", False), ("another's", True)])
def test_what_was_given_back_after_it_lapsed_does_not_come_back(
    shown: str, goes_on: bool, server: Any, a_license: Callable[..., Any], clocks: Any
) -> None:
    """The pod ended, and its message came late; the id of another lease ends nothing."""
    server.upload(a_license(3, days=LIFE_S / 86400))
    leases = {"its own": server.ask("GPU-0", uid="a")["lease"], "another's": server.ask("GPU-1", uid="b")["lease"]}
    clocks.advance(TTL_S + 10)
    assert server.client.delete(f"/v1/leases/{leases[shown]}").status_code == 204
    again = server.ask("GPU-0", uid="a")
    assert again.get("reason") == (None if goes_on else "Expired"), again


@pytest.mark.parametrize(("terms", "stops"), [({}, None), ({"renew_after_expiry": False}, True)], ids=repr)
def test_a_refusal_has_whether_the_license_stops_serving(
    terms: dict[str, Any], stops: bool | None, late: Callable[..., Any]
) -> None:
    """For the pod whose lease is live and for one that is unknown, and in an `Expired` refusal only."""
    server = late(LIFE_S + 1, **terms)
    for gpu, uid in (("GPU-1", "b"), ("GPU-0", "a")):
        answer = server.ask(gpu, uid=uid)
        assert answer.get("stopsServing") is (stops if answer.get("reason") == "Expired" else None), answer
    assert "stopsServing" not in server.ask("GPU-9", uid="c")


def test_a_seat_that_is_taken_meanwhile_is_taken(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """The limit counts for a lapsed lease as for any other."""
    license_ = a_license(2, limit=1)
    first, second = license_.gpus
    ended = replace(first, expires=first.expires - timedelta(days=30) + timedelta(seconds=LIFE_S))
    server.upload(replace(license_, gpus=(ended, second)))
    assert server.ask("GPU-0", uid="a")["state"] == "granted"
    clocks.advance(TTL_S + 10)
    assert server.ask("GPU-1", uid="b")["state"] == "granted"
    assert server.ask("GPU-0", uid="a")["reason"] == "LimitReached"
    clocks.advance(TTL_S + 10)
    assert server.ask("GPU-0", uid="a")["state"] == "renewed"


def test_what_is_remembered_is_bounded(now: Any) -> None:
    """By device names, the oldest first to go."""
    lapsed = Lapsed(most=3)
    for number in range(4):
        lapsed.add(Lease(str(number), ("GPU-0",), Holder("n", "p", str(number)), now, now))
    found = [lapsed.find(LeaseRequest(("GPU-0",), Holder("n", "p", str(number)))) is not None for number in range(4)]
    assert found == [False, True, True, True]


def test_what_lapsed_is_forgotten_by_its_id_for_its_own_pod(now: Any) -> None:
    """A later lease on the same question, and one of another pod, stay."""
    lapsed, request = Lapsed(most=3), LeaseRequest(("GPU-0",), Holder("n", "p", "u"))
    for name in ("old", "new"):
        lapsed.add(Lease(name, request.gpus, request.holder, now, now))
    for name, uid in (("old", "u"), ("new", "v"), ("unknown", None)):
        lapsed.forget_id(name, uid)
    assert getattr(lapsed.find(request), "id", None) == "new"
    lapsed.forget_id("new", "u")
    assert lapsed.find(request) is None
