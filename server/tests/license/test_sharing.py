"""Programs of one pod on the same GPUs have one lease: the last of them gives it back."""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseKeeper
from windlass.license.model import Holder
from windlass.license.sharing import JOIN_S_MAX, Share, name
from windlass_testbed.simulated_time import elapse, passed_s

from .conftest import URL

POD = Holder("team-a", "qwen-0", "uid-1", "qwen")
GRANT = {"lease": "L1", "ttlSeconds": 60, "graceSeconds": 0, "message": "granted"}
HOLD = """
import asyncio, sys
from windlass.license.sharing import Share
share = Share(sys.argv[1])
asyncio.run(share.join())
print("joined", flush=True)
input()
"""


async def joined(lease: str = "a") -> Share:
    share = Share(lease)
    await share.join()
    return share


async def test_only_the_last_keeper_of_a_lease_gives_it_back(serve) -> None:
    """The first that ends leaves the GPUs to the other."""
    server = serve(lambda seen: (200, json.dumps(GRANT)))
    async with LeaseClient([server.url]) as client:
        first, second = (LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None) for _ in range(2))
        other = LicenseKeeper(client, ("GPU-b",), POD, lambda facts: None)
        for keeper in (first, second, other):
            await keeper.obtain()
        await first.release()
        assert [seen.method for seen in server.seen] == ["POST"] * 3
        await other.release()
        assert server.seen[-1].method == "DELETE"
        await second.release()
        assert [seen.method for seen in server.seen] == ["POST"] * 3 + ["DELETE"] * 2


@pytest.mark.simulated_time
async def test_one_who_waits_in_vain_leaves_too(answering) -> None:
    """A keeper that was never granted anything holds nothing back."""
    refusal = {"reason": "NoLicense", "message": "none"}
    server = answering(lambda seen: (200, json.dumps(GRANT)) if len(server.seen) == 1 else (403, json.dumps(refusal)))
    async with LeaseClient([URL], transport=server.transport) as client:
        first, second = (LicenseKeeper(client, ("GPU-a",), POD, lambda facts: None) for _ in range(2))
        await first.obtain()
        waiting = asyncio.create_task(second.obtain())
        await elapse(3600)
        assert not waiting.done()
        waiting.cancel()
        await second.release()
        await first.release()
    assert server.seen[-1].method == "DELETE"


async def test_who_is_last() -> None:
    """Several hold it, one after the other leaves; a lease of another name is another lease."""
    one, two, other = await joined(), await joined(), await joined("b")
    assert not one.is_last()
    one.leave()
    assert two.is_last()
    assert other.is_last()
    two.leave()
    other.leave()
    again = await joined()
    assert again.is_last()
    again.leave()


@pytest.mark.simulated_time
async def test_nobody_joins_while_the_last_one_gives_back() -> None:
    """A program that starts meanwhile asks after the lease was given back, so it gets one of its own."""
    last = await joined()
    assert last.is_last()
    starting = asyncio.create_task(joined())
    await elapse(4)
    assert not starting.done()
    last.leave()
    started = await starting
    assert started.is_last()
    started.leave()


def test_a_killed_program_counts_no_more() -> None:
    """The kernel takes its lock away; no file has to be mended."""
    with subprocess.Popen([sys.executable, "-c", HOLD, "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"joined\n"
        mine = asyncio.run(joined())
        assert not mine.is_last()
        mine.leave()
        other.kill()
        other.wait()
    mine = asyncio.run(joined())
    assert mine.is_last()
    mine.leave()


def test_nothing_is_left_behind(place: Path) -> None:
    """Programs outside of a cluster have a name each, so their files would pile up."""
    for is_asked in (True, False):  # one that was refused gives no lease back
        share = asyncio.run(joined())
        assert len(list(place.glob("windlass-license-*/*"))) == 1
        assert not is_asked or share.is_last()
        share.leave()
        assert list(place.glob("windlass-license-*/*")) == []


async def test_without_a_place_a_program_counts_as_the_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container without a writable folder; its one program gives the seat back at once."""
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nowhere")
    share = await joined()
    assert share.is_last()
    share.leave()


@pytest.mark.simulated_time
async def test_a_lock_that_stays_taken_stops_no_start() -> None:
    """As of a program that was stopped while it gave its lease back."""
    last = await joined()
    assert last.is_last()
    share = await joined()
    assert passed_s() == pytest.approx(JOIN_S_MAX, abs=0.1)
    share.leave()
    last.leave()


def test_the_name_of_a_lease() -> None:
    """Pod, GPUs and license servers make it, in whatever order."""
    one = name("uid", ["GPU-a", "GPU-b"], ["http://a", "http://b"])
    assert one == name("uid", ["GPU-b", "GPU-a"], ["http://b", "http://a"])
    others = {name("uid", ["GPU-a"], ["http://a"]), name("u", ["GPU-a"], ["http://a"]), name("u", ["GPU-a"], [])}
    assert len(others | {one}) == 4
    assert one.isalnum()
