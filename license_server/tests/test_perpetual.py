"""Licenses without an end, and numbers that are larger than any time: a sentence, or as long as a date can be."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from windlass_license.cli import main
from windlass_license.clock import GuardedClock
from windlass_license.dates import LATEST, later
from windlass_license.errors import LicenseFileError
from windlass_license.license_file import codec
from windlass_license.license_file.keys import by_id
from windlass_license.rules.model import GRACE_MAX_S, Holder, Lease
from windlass_license.settings import read_public_keys
from windlass_license.storage.store import Store

NEVER = ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999+14:00", "9999-12-31T00:00Z")


def _issue(folder: Path, *more: str, expires: str = NEVER[0]) -> int:
    """`windlass-license issue` with a new key."""
    main(["keygen", "--out", str(folder / "keys")])
    (folder / "gpus.txt").write_text("GPU 0: NVIDIA L20 (UUID: GPU-0)\n")
    base = ["issue", "--gpus", str(folder / "gpus.txt"), "--customer", "c", "--appid", "1", "--expires", expires]
    return main([*base, "--key", str(folder / "keys/private.pem"), "--out", str(folder / "license.dat"), *more])


@pytest.mark.parametrize("expires", NEVER)
def test_a_license_without_an_end_is_a_license(
    expires: str, tmp_path: Path, a_server: Callable[..., Any], clocks: Any
) -> None:
    """Issued, verified, uploaded, leased from, renewed after a restart, and shown."""
    assert _issue(tmp_path, "--grace-seconds", str(GRACE_MAX_S), expires=expires) == 0
    file, public = tmp_path / "license.dat", tmp_path / "keys/public.pem"
    assert main(["verify", str(file), "--public-key", str(public)]) == 0
    keys = read_public_keys([public], {})
    served = a_server(clocks, public_keys=keys)
    assert served.client.post("/ls", files={"file": file.read_bytes()}).status_code == 200
    assert served.ask("GPU-0")["graceSeconds"] == GRACE_MAX_S
    clocks.advance(86400)
    again = a_server(clocks, public_keys=keys)
    answer = again.ask("GPU-0")
    assert (answer["state"], answer["expires"]) == ("renewed", datetime.fromisoformat(expires).isoformat())
    assert "9999-12-31T" in again.client.get("/ls/view").text
    assert "windlass_license_expiry_days 2" in again.client.get("/metrics").text


def test_a_grace_of_more_than_ten_years_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is issued."""
    assert _issue(tmp_path, "--grace-seconds", str(GRACE_MAX_S + 1)) == 2
    shown = capsys.readouterr().err
    assert shown == (
        f"windlass-license: --grace-seconds {GRACE_MAX_S + 1} is longer than ten years; give {GRACE_MAX_S} or less\n"
    )
    assert not (tmp_path / "license.dat").exists()


def test_such_a_file_is_not_accepted(a_license: Callable[..., Any], signing_key: Any, server: Any, now: Any) -> None:
    """Nor where it is verified and uploaded."""
    blob = codec.sign(a_license(grace_s=999_999_999_999), signing_key)
    with pytest.raises(LicenseFileError, match="graceSeconds of 999999999999, which is longer than ten years; ask for"):
        codec.accept(blob, by_id([signing_key.public_key()]), now)
    assert server.client.post("/ls", files={"file": blob}).status_code == 400


def test_one_that_is_in_force_already_counts_as_ten_years(
    a_server: Callable[..., Any], a_license: Callable[..., Any], signing_key: Any, clocks: Any
) -> None:
    """An earlier version took it: the server starts, its pods go on, and no answer holds the number."""
    served = a_server(clocks)
    served.upload(a_license())
    assert served.ask("GPU-0")["state"] == "granted"
    store = Store(served.settings.data_dir)
    with store.transaction() as tx:
        license_ = a_license(grace_s=999_999_999_999)
        tx.replace_license(codec.sign(license_, signing_key), license_.gpus[0].issued)
    store.close()
    clocks.advance(3600)
    again = a_server(clocks)
    answer = again.ask("GPU-0")
    assert (answer["state"], answer["graceSeconds"]) == ("renewed", GRACE_MAX_S)


def test_dates_end_where_they_end(now: datetime) -> None:
    """What would be later than any date is the last one."""
    lease = Lease("l", ("GPU-0",), Holder("n", "p", "u"), LATEST, LATEST)
    day = timedelta(days=1)
    assert later(now, day) == now + day
    assert later(now, timedelta.max) == LATEST
    assert lease.renewed(LATEST, day).expires == LATEST
    assert lease.prolonged(timedelta.max, timedelta.max).expires == LATEST
    assert replace(lease, expires=now).prolonged(day, timedelta.max).expires == now + day


@pytest.mark.parametrize("wall_s", [253_402_300_799.9, 1e12, 1e300])
def test_a_clock_beyond_all_dates(wall_s: float, now: datetime) -> None:
    """It shows the last date, and is read on."""
    clock = GuardedClock(now, lambda: wall_s, iter((0.0, 5.0, 1e12)).__next__)
    assert [clock.read().now.replace(microsecond=0) for _ in range(2)] == [LATEST.replace(microsecond=0)] * 2
    assert datetime.max.replace(tzinfo=UTC) == LATEST
