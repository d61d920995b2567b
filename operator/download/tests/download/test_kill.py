"""Killed at any byte, paused, doubled, lied to: what is published is whole, and little is fetched twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest
from windlass_download import job
from windlass_testbed.waiting import wait_until

from .conftest import NAME, a_model, content
from .hub import Fault
from .processes import Reader, Zygote

PART = 16 << 10
FAST = ["--part-kib", "16", "--connections", "2", "--stale-s", "0.2"]
KILLS = {"models/tiny": 8, "": 6}  # and as many while one revision replaces another; `make crash-download` has more


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as one:
        yield one


@pytest.mark.parametrize("path", ["models/tiny", ""], ids=["directory", "root"])
def test_killed_at_random_bytes_and_resumed(bench, zygote, path):
    """All kills in one download; what was finished is never fetched again, and no reader sees half of it."""
    chance, hub = random.Random(len(path)), bench.hub
    files = hub.models[NAME]["main"] = a_model(3, shard_bytes=300_000)
    total, kills, words = sum(map(len, files.values())), 0, bench.words(*FAST, path=path)
    hub.pause_s = 0.002
    with Reader(bench.volume / path, files) as reader:
        while kills < KILLS[path]:
            hub.hold_at = hub.sent + chance.randrange(1, total // 10)
            code = zygote.kill_when(zygote.start(words), lambda: hub.sent >= hub.hold_at)
            assert code == -signal.SIGKILL
            kills += 1
        hub.hold_at = None
        assert zygote.run(words) == 0
    assert content(bench.volume / path) == files
    # A part is lost for each connection, and what a socket still held.
    assert hub.sent <= total + kills * 2 * PART
    assert (reader.wrong, reader.models > 0) == ([], True)
    assert list(bench.volume.rglob(".windlass-download-*")) == []


@pytest.mark.parametrize("path", ["models/tiny", ""], ids=["directory", "root"])
def test_killed_while_a_revision_takes_the_place_of_another(bench, zygote, path):
    """The steps of the publication itself, cut anywhere: one revision or the other, or none, never a mixture."""
    chance, target = random.Random(7), bench.volume / path
    one = bench.hub.models[NAME]["main"]
    two = {**one, "config.json": b"{}", **{f"model-{n}.safetensors": bytes(100_000 + n) for n in range(2)}}
    del two["sub/notes.txt"]
    bench.hub.models[NAME]["v2"] = two
    assert zygote.run(bench.words(*FAST, path=path)) == 0
    (target / "adapter.bin").write_bytes(b"mine")
    with Reader(target, one, two) as reader:
        for number in range(6):
            words = bench.words(*FAST, "--revision", ("v2", "main")[number % 2], path=path)
            pid, wait_s = zygote.start(words), chance.uniform(0.0, 0.25)
            began = time.monotonic()
            zygote.kill_when(pid, lambda: time.monotonic() - began > wait_s)  # noqa: B023 - called at once
        assert zygote.run(bench.words(*FAST, "--revision", "v2", path=path)) == 0
    assert content(target) == {**two, "adapter.bin": b"mine"}
    assert (reader.wrong, reader.models > 0) == ([], True)


@pytest.mark.parametrize("step", ["publish._bring_over", "job.sweep"])
def test_killed_when_the_model_is_whole_and_the_rest_is_not(bench, monkeypatch, step):
    """The next process brings over what the user had put there, and leaves no staging directory."""
    files = bench.hub.models[NAME]["main"]
    bench.hub.models[NAME]["v2"] = {**files, "config.json": b"{}"}
    bench.run()
    (bench.target / "adapter.bin").write_bytes(b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(f"windlass_download.{step}", _killed)
        patch.setattr("windlass_download.claim.Claim.release", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            bench.run("--revision", "v2")
    assert len(list(bench.volume.rglob("claim-*"))) == 1
    code, report = bench.run("--revision", "v2", "--stale-s", "0.2")
    assert (code, report["download"]["bytesFetched"]) == (0, 0)
    assert content(bench.target) == {**files, "config.json": b"{}", "adapter.bin": b"mine"}
    assert list(bench.volume.rglob(".windlass-download-*")) == []


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_many_at_once_fetch_it_once(bench, zygote):
    """Pods of several services on several nodes: one works, the others wait, all end well."""
    files = bench.hub.models[NAME]["main"]
    bench.hub.pause_s = 0.002
    with Reader(bench.target, files) as reader:
        pids = [zygote.start(bench.words(*FAST[:4], "--stale-s", "600")) for _ in range(4)]
        assert [zygote.wait(pid) for pid in pids] == [0] * 4
    assert content(bench.target) == files
    assert bench.hub.sent == sum(map(len, files.values()))
    assert reader.wrong == []
    assert list(bench.volume.rglob(".windlass-download-*")) == []


def test_a_paused_owner_is_replaced_and_harms_nothing(bench, zygote):
    """It wakes up after the other has published, with bytes in its hands."""
    files = bench.hub.models[NAME]["main"]
    bench.hub.pause_s = 0.005
    first = zygote.start(bench.words(*FAST))
    wait_until(lambda: bench.hub.sent)
    os.kill(first, signal.SIGSTOP)
    assert zygote.run(bench.words(*FAST)) == 0
    os.kill(first, signal.SIGCONT)
    assert zygote.wait(first) == 0
    assert content(bench.target) == files
    assert list(bench.volume.rglob(".windlass-download-*")) == []


@pytest.mark.parametrize("path", ["models/tiny", ""], ids=["directory", "root"])
@pytest.mark.parametrize("damage", [False, True], ids=["honest", "corrupt"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "replacing"])
def test_two_that_both_own_publish_one_whole_model(bench, zygote, path, damage, first):
    """A volume that lies about files: both fetch, both publish, with bytes damaged on the way to either."""
    files, target, chance = bench.hub.models[NAME]["main"], bench.volume / path, random.Random(5)
    earlier = {**files, "config.json": b"{}", "model-0.safetensors": bytes(50_000)}
    bench.hub.models[NAME]["earlier"] = earlier
    if not first:
        assert zygote.run(bench.words(*FAST, "--revision", "earlier", path=path)) == 0
    broken: set[str] = set()

    def fault(seen):
        if not damage or not seen.file.startswith("model") or seen.file in broken or chance.random() < 0.5:
            return None
        broken.add(seen.file)
        return Fault(act="corrupt")

    bench.hub.fault, bench.hub.redirects, bench.hub.pause_s = fault, False, 0.001
    logs = [bench.folder / f"log-{number}" for number in range(2)]
    with Reader(target, files, earlier) as reader:
        words = [bench.words(*FAST, "--termination-log", str(log), path=path) for log in logs]
        pids = [zygote.start(one, lying=True) for one in words]
        codes = [zygote.wait(pid) for pid in pids]
    reports = [json.loads(log.read_text()) for log in logs]
    assert [(code, report["ok"]) for code, report in zip(codes, reports, strict=True)] == [(0, True)] * 2, reports
    assert content(target) == files
    assert (reader.wrong, reader.models > 0) == ([], True)


def test_a_model_that_another_owner_broke_is_made_whole(bench, monkeypatch):
    """Another owner took config.json away while this one published: it looks again before it ends."""
    real, calls = job.publish, []

    def publish(place, *rest):
        real(place, *rest)
        calls.append(place)
        if len(calls) == 1:
            (place.target / "config.json").unlink()

    monkeypatch.setattr(job, "publish", publish)
    code, report = bench.run()
    assert (code, report["ok"], len(calls)) == (0, True, 2)
    assert content(bench.target) == bench.hub.models[NAME]["main"]


def test_sigterm_gives_the_claim_back(bench, zygote):
    """The next one begins at once, not when the claim is stale."""
    bench.hub.hold_at = 1  # so that it is under way still when it is told to go
    pid = zygote.start(bench.words("--stale-s", "3600", "--stall-s", "1"))
    wait_until(lambda: bench.hub.sent)
    os.kill(pid, signal.SIGTERM)
    assert zygote.wait(pid) == 1
    bench.hub.hold_at = None
    assert zygote.run(bench.words("--stale-s", "3600")) == 0
