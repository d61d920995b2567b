"""After a date in the false future `--trust-clock` brings the leases back to the true time, and only then."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windlass_license.storage.store import FILE_NAME

YEARS_S = 13 * 365 * 86400


def _granted_in_the_false_future(a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any) -> None:
    """One of one seat is taken by a pod while the date is years ahead."""
    false = replace(clocks)
    false.step(YEARS_S)
    served = a_server(false)
    served.upload(a_license(2, limit=1, days=36500))
    assert served.ask("GPU-0", uid="dead")["state"] == "granted"


def test_the_seat_of_a_dead_pod_is_free_after_one_ttl(
    a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """Not before, as the pod may serve yet; and the next start, without the flag, finds it so."""
    _granted_in_the_false_future(a_server, a_license, clocks)
    trusting = a_server(clocks, trust_clock=True)
    assert trusting.ask("GPU-1", uid="b")["reason"] == "LimitReached"
    clocks.advance(61)
    assert trusting.ask("GPU-1", uid="b")["state"] == "granted"
    again = a_server(clocks)
    assert again.ask("GPU-1", uid="b")["state"] == "renewed"
    clocks.advance(61)
    assert again.ask("GPU-0", uid="c")["state"] == "granted"


def test_a_pod_that_serves_keeps_its_lease(
    a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """It renews as if nothing had been; no time of its lease is in the future any more."""
    _granted_in_the_false_future(a_server, a_license, clocks)
    trusting = a_server(clocks, trust_clock=True)
    assert trusting.ask("GPU-0", uid="dead")["state"] == "renewed"
    rows = sqlite3.connect(trusting.settings.data_dir / FILE_NAME).execute(
        "SELECT granted_us, expires_us, asked_us FROM leases LEFT JOIN asked USING (id)"
    )
    now_us = round(clocks.wall_s * 1e6)
    assert rows.fetchall() == [(now_us, now_us + 60_000_000, now_us)]


def test_a_true_date_cuts_nothing(a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any) -> None:
    """With the flag and a latest time that lies behind, the leases get the time without a server back as always."""
    served = a_server(clocks)
    served.upload(a_license(2, limit=1))
    assert served.ask("GPU-0", uid="a")["state"] == "granted"
    clocks.advance(3600)
    trusting = a_server(clocks, trust_clock=True)
    clocks.advance(59)
    assert trusting.ask("GPU-1", uid="b")["reason"] == "LimitReached"
