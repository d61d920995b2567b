"""The ledger and a clock that is put back: what was counted in the future neither blocks a key nor comes back."""

import pytest
from windlass.front.key_document import Limits
from windlass.front.limits.ledger import AHEAD_S, Ledger
from windlass.front.limits.member import Identity, Member, PendingRequest

NOW = 1_800_000_000.0
AHEAD = NOW + 3600


def test_seconds_of_the_future_are_not_used() -> None:
    """Those of another replica's clock, a little ahead, are."""
    ledger = Ledger()
    ledger.add("a", "w", int(AHEAD), 2, 200)
    ledger.add("a", "w", int(NOW) + AHEAD_S, 1, 100)
    assert (ledger.used("a", NOW), ledger.used("a", AHEAD)) == ((1, 100), (2, 200))
    assert ledger.wait_s("a", NOW, 3, 0) == AHEAD_S + 61
    ledger.forget(NOW)
    assert [row[2] for row in ledger.rows()] == [int(NOW) + AHEAD_S]
    assert ledger.used("a", AHEAD) == (0, 0)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_clock_put_back_blocks_no_key(forgets: bool) -> None:
    """Its requests of the last minute are forgotten, once."""
    member, wish = Member(Identity(1.0, "a")), PendingRequest("k", Limits(requests=2))
    assert [member.decide(wish, AHEAD).may_begin for _ in range(3)] == [True, True, False]
    if forgets:
        member.ledger.forget(NOW)
    assert [member.decide(wish, NOW).may_begin for _ in range(3)] == [True, True, False]


def test_a_request_that_ends_after_the_clock_was_put_back_counts_now() -> None:
    """What it used beyond the expected."""
    member, wish = Member(Identity(1.0, "a")), PendingRequest("k", Limits(tokens=1000), 100)
    second = member.decide(wish, AHEAD).second
    member.ledger.forget(NOW)
    member.end(wish, second, 700, NOW)
    assert member.ledger.used("k", NOW) == (0, 600)
