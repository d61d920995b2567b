"""Leases lapse also when nobody asks: in the metrics at once, in the audit log within one TTL, with the right date."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from windlass_license.errors import StandByError, StoreError
from windlass_license.storage.commits import GroupCommit
from windlass_license.storage.store import FILE_NAME
from windlass_testbed.waiting import wait_until


def _figures(served: Any) -> list[float]:
    text = served.client.get("/metrics").text
    rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return [float(rows[f"windlass_license_{name}"]) for name in ("gpus_live", "leases_live")]


def test_only_live_leases_are_counted(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """Of the pods that died no figure speaks, whether or not anybody asked since."""
    server.upload(a_license(3))
    server.ask("GPU-0", "GPU-1", uid="a")
    clocks.advance(30)
    server.ask("GPU-1", uid="b")
    assert _figures(server) == [2, 2]
    clocks.advance(31)
    assert _figures(server) == [1, 1]
    clocks.advance(30)
    assert _figures(server) == [0, 0]


def test_a_jump_of_the_date_takes_no_lease_out_of_the_figures(
    server: Any, a_license: Callable[..., Any], clocks: Any
) -> None:
    """No time has passed in which pods could have renewed."""
    server.upload(a_license(3))
    server.ask("GPU-0")
    clocks.step(3600)
    assert _figures(server) == [1, 1]


def test_a_lapse_is_recorded_without_a_request_and_dated_right(
    a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any, now: datetime
) -> None:
    """The time is stored, too: a date that is set back after a crash then revives less."""
    served = a_server(clocks, ttl=timedelta(seconds=1))
    served.upload(a_license(2))
    served.ask("GPU-0")
    clocks.advance(1.5)
    wait_until(lambda: "lapsed" in served.audit_events())
    lapsed = json.loads(served.client.get("/ls/audit?event=lapsed").text)
    assert datetime.fromisoformat(lapsed["at"]) == now + timedelta(seconds=1)
    rows = sqlite3.connect(served.settings.data_dir / FILE_NAME)
    assert rows.execute("SELECT seen_us FROM clock").fetchone() == (round(clocks.wall_s * 1e6),)
    assert "windlass_license_commit_seconds_count 2.0" in served.client.get("/metrics").text


def test_after_a_restart_nobody_need_ask(
    a_server: Callable[..., Any], a_license: Callable[..., Any], clocks: Any
) -> None:
    """A lease that was stored lapses in a server that no pod has found yet."""
    served = a_server(clocks, ttl=timedelta(seconds=1))
    served.upload(a_license(2))
    served.ask("GPU-0")
    again = a_server(clocks, ttl=timedelta(seconds=1))
    clocks.advance(1.5)
    wait_until(lambda: "lapsed" in again.audit_events())


def test_lapses_are_recorded_in_the_order_of_time(server: Any, a_license: Callable[..., Any], clocks: Any) -> None:
    """Also when the first lease of all was renewed since."""
    server.upload(a_license(3))
    server.ask("GPU-0", uid="a")
    clocks.advance(1)
    server.ask("GPU-1", uid="b")
    clocks.advance(1)
    server.ask("GPU-0", uid="a")
    clocks.advance(100)
    server.ask("GPU-2", uid="c")
    lines = [json.loads(line) for line in server.client.get("/ls/audit").text.splitlines()]
    assert [(line["event"], line.get("uid")) for line in lines][-3:] == [
        ("lapsed", "b"),
        ("lapsed", "a"),
        ("granted", "c"),
    ]
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)


def test_the_timer_outlives_what_a_commit_raises() -> None:
    """It is nobody's request: a lost seat is silent, a full disk a line of the log."""
    errors: list[Exception] = [StandByError("gone"), StoreError("disk full"), KeyError("x")]
    sizes = list[int]()

    def commit(jobs: Sequence[Any]) -> list[Any]:
        sizes.append(len(jobs))
        if errors:
            raise errors.pop(0)
        return []

    commits = GroupCommit(commit, idle_s=0.02)
    wait_until(lambda: len(sizes) > 5)
    commits.close()
    assert set(sizes) == {0}
