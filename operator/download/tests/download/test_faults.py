"""A hub, a network and a volume that fail: the model is fetched all the same, or one sentence says why not."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
import urllib.request
from types import SimpleNamespace

import pytest
from windlass_testbed.waiting import HANG_S, wait_until

from .conftest import NAME, content
from .hub import Fault

HUBS = ["huggingface", "modelscope"]


def once(file: str, fault: Fault, times: int = 1, host: str = ""):
    """The fault for the first requests of one file, then none."""
    left = [times]

    def choose(seen):
        if seen.file != file or left[0] == 0 or host not in ("", seen.host):
            return None
        left[0] -= 1
        return fault

    return choose


def ends_well(bench, *words: str, hub: str = "huggingface") -> dict:
    code, report = bench.run(*words, hub=hub)
    assert (code, report["ok"]) == (0, True), report
    assert content(bench.target) == bench.hub.models[NAME]["main"]
    return report["download"]


def fails(bench, *words: str, code: int = 0, hub: str = "huggingface") -> dict:
    got, report = bench.run(*words, hub=hub)
    assert (got, report["ok"]) == (code, False)
    assert report["message"].isascii()
    assert not bench.target.exists()
    return report


@pytest.mark.parametrize("hub", HUBS)
@pytest.mark.parametrize("act", ["cut", "stall"])
def test_an_answer_that_breaks_off_goes_on_where_it_broke_off(bench, act, hub):
    bench.hub.redirects = False
    bench.hub.fault = once("model-0.safetensors", Fault(act=act, after=32 << 10))
    got = ends_well(bench, "--connections", "1", "--stall-s", "5", hub=hub)
    assert got["bytesFetched"] == got["bytesTotal"]
    assert [one.headers["range"] for one in bench.hub.asked("model-0.safetensors")][:2] == [
        "bytes=0-65535",
        "bytes=32768-65535",
    ]


@pytest.mark.parametrize("act", ["cut", "stall", "corrupt"])
def test_a_stream_that_breaks_off_is_taken_again(bench, act):
    """A server without ranges: the parts that came are kept, the rest comes with the next answer."""
    bench.hub.ranges = bench.hub.redirects = False
    seen = [Fault(), Fault(act=act, after=100_000)]
    bench.hub.fault = lambda one: seen.pop(0) if one.file == "model-1.safetensors" and seen else None
    ends_well(bench, "--connections", "2", "--stall-s", "0.3")


@pytest.mark.parametrize(
    ("hub", "file"),
    [*(("huggingface", name) for name in ("model-2.safetensors", "tokenizer.json", "config.json", "sub/notes.txt")),
     ("modelscope", "config.json")],
)  # fmt: skip
def test_a_damaged_file_is_fetched_once_more(bench, hub, file):
    bench.hub.redirects = False
    bench.hub.fault = once(file, Fault(act="corrupt"))
    got = ends_well(bench, hub=hub)
    size = len(bench.hub.models[NAME]["main"][file])
    assert got["bytesFetched"] == got["bytesTotal"] + size


@pytest.mark.parametrize("file", ["model-2.safetensors", "config.json"], ids=["lfs", "git"])
def test_a_file_that_is_damaged_for_good_is_named(bench, file):
    bench.hub.redirects = False
    bench.hub.fault = once(file, Fault(act="corrupt"), times=100)
    report = fails(bench)
    assert report["reason"] == "DownloadCorrupt"
    assert file in report["message"]


@pytest.mark.parametrize("size", [0, 1000, 207_919, 400_000, None], ids=str)
def test_a_branch_that_moves_on_is_listed_again(bench, size):
    """ModelScope pins nothing: the listing's sha256 does, and a second look tells the new one."""
    bench.hub.redirects = False
    new = dict(bench.hub.models[NAME]["master"])
    del new["model-1.safetensors"]
    new |= {} if size is None else {"model-1.safetensors": bytes(size)}

    def move(seen):
        if seen.file == "model-1.safetensors":
            bench.hub.models[NAME] = {"main": new, "master": new}

    bench.hub.fault = move
    ends_well(bench, "--connections", "1", hub="modelscope")


def test_429_is_waited_for_as_the_hub_says(bench):
    bench.hub.fault = once("", Fault(429, {"Retry-After": "1"}))
    began = time.monotonic()
    ends_well(bench)
    assert time.monotonic() - began >= 1  # clock: at least; a slow machine only takes longer


@pytest.mark.parametrize("status", [429, 500])
def test_a_hub_in_trouble_is_asked_again(bench, status):
    bench.hub.fault = once("model-1.safetensors", Fault(status))
    ends_well(bench)


def test_an_address_that_expired_is_asked_for_again(bench):
    """The storage's 403 is not the hub's: a signature ran out."""
    number = [0]

    def expire(seen):
        number[0] += seen.host == "cdn"
        return Fault(403) if seen.host == "cdn" and number[0] % 3 == 2 else None

    bench.hub.fault = expire
    ends_well(bench, "--connections", "2")


@pytest.mark.parametrize("hub", HUBS)
def test_a_hub_in_trouble_for_good_ends_with_1(bench, hub, monkeypatch, capsys):
    """And says so in the log while it tries."""
    from windlass_download import command, job

    now, printed = 0.0, list[str]()
    monkeypatch.setattr(command, "LINE_S", 0.1)
    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: now))
    line = f"download: the hub is asked for its files ({bench.hub.url} answers 503)"

    def is_logged():
        printed.append(capsys.readouterr().out)
        return line in "".join(printed).splitlines()

    def go_on():
        nonlocal now
        wait_until(is_logged)
        now += 601

    bench.hub.fault = lambda _: Fault(503)
    later = threading.Thread(target=go_on, daemon=True)
    later.start()
    report = fails(bench, "--give-up-s", "600", code=1, hub=hub)
    later.join()
    assert (report["reason"], "503" in report["message"]) == ("HubUnreachable", True)
    assert now == 601


def test_nobody_there_ends_with_1(bench):
    report = fails(bench, "--endpoint", "http://127.0.0.1:1", "--give-up-s", "0", code=1)
    assert report["reason"] == "HubUnreachable"


@pytest.mark.parametrize("hub", HUBS)
@pytest.mark.parametrize("status", [401, 403])
def test_a_missing_token_is_one_sentence(bench, hub, status):
    bench.hub.fault = lambda _: Fault(status)
    report = fails(bench, hub=hub)
    assert report["reason"] == "DownloadUnauthorized"
    assert "spec.model.download.tokenSecret" in report["message"]


@pytest.mark.parametrize("hub", HUBS)
def test_a_wrong_token_is_one_sentence(bench, hub, monkeypatch):
    bench.hub.token = "right"
    monkeypatch.setenv("WINDLASS_HUB_TOKEN", "wrong-token")
    report = fails(bench, hub=hub)
    assert report["reason"] == "DownloadUnauthorized"
    assert "refuses the token" in report["message"]
    assert "wrong-token" not in json.dumps(report)


def test_a_gated_model_says_what_to_accept(bench):
    bench.hub.gated.add(NAME)
    report = fails(bench)
    assert (report["reason"], "gated" in report["message"]) == ("DownloadUnauthorized", True)


@pytest.mark.parametrize("hub", HUBS)
@pytest.mark.parametrize(
    ("words", "said"),
    [(["--name", "qwen/Nothing"], "qwen/Nothing"), (["--revision", "v9"], "v9"), (["--endpoint", "{}/x"], "/x")],
    ids=["name", "revision", "endpoint"],
)
def test_what_is_not_there_is_named(bench, hub, words, said):
    report = fails(bench, *[word.format(bench.hub.url) for word in words], hub=hub)
    assert report["reason"] == "DownloadNotFound"
    assert said in report["message"]


@pytest.mark.parametrize(
    ("hub", "body"),
    [
        ("huggingface", b"<html>log in</html>"),
        ("huggingface", b'{"sha": 5}'),
        ("huggingface", b"\xff\xfe"),
        ("modelscope", b"[1]"),
        ("modelscope", b'{"Data": {"Files": 5}}'),
        ("modelscope", b'{"Code": 200, "Data": {"Files": [{"Path": 5}]}}'),
    ],
)
def test_an_answer_that_is_no_hub_s_is_refused(bench, hub, body):
    bench.hub.fault = lambda seen: None if seen.file else Fault(200, body=body)
    assert fails(bench, hub=hub)["reason"] in ("HubAnswerBroken", "DownloadNotFound")


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://x/y", "http://[", ""])
def test_a_redirect_to_nowhere_is_refused(bench, place):
    bench.hub.fault = lambda seen: Fault(302, {"Location": place}) if seen.file else None
    assert fails(bench)["reason"] == "HubAnswerBroken"


def test_a_redirect_without_end_is_given_up(bench):
    bench.hub.fault = lambda seen: Fault(302, {"Location": seen.target}) if seen.file else None
    assert fails(bench, "--give-up-s", "0", code=1)["reason"] == "HubUnreachable"


def test_too_little_space_is_reported_before_anything_is_fetched(bench, monkeypatch):
    real = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real(path)[:3], 10, 10, *real(path)[5:])))
    report = fails(bench)
    assert (report["reason"], bench.hub.sent) == ("DownloadNoSpace", 0)
    assert "KiB" in report["message"]


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (errno.ENOSPC, 0, "DownloadNoSpace"),
        (errno.EDQUOT, 0, "DownloadNoSpace"),
        (errno.EROFS, 0, "DownloadNotWritable"),
        (errno.EIO, 1, "DownloadFailed"),
        (errno.ESTALE, 1, "DownloadFailed"),
    ],
    ids=["full", "quota", "read-only", "broken", "stale"],
)
def test_a_volume_that_fails_is_reported(bench, monkeypatch, number, code, reason):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwrite", fail)
    assert fails(bench, code=code)["reason"] == reason


def test_a_directory_that_may_not_be_written_is_named(bench, monkeypatch):
    def fail(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", fail)
    assert fails(bench)["reason"] == "DownloadNotWritable"


def test_the_facts_and_the_lines_tell_how_far_it_is(bench, monkeypatch, capsys):
    """Lines of ASCII at their pace, and facts over HTTP, while it runs."""
    import socket

    from windlass_download import command

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(command, "LINE_S", 0.2)
    bench.hub.hold_at = 300_000
    told: list[dict] = []
    printed: list[str] = []

    def has_facts():
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/windlass/facts") as answer:
            told.append(json.load(answer))
        return told and told[-1]["download"]["bytesDone"] > 0

    def has_line():
        printed.append(capsys.readouterr().out)
        return " of 614.1 KiB (" in "".join(printed)

    def ask():
        try:
            wait_until(has_facts)
            wait_until(has_line)
        finally:
            bench.hub.hold_at = None

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    ends_well(bench, "--facts-port", str(port), "--connections", "2")
    asking.join(HANG_S)
    facts = told[-1]
    assert (facts["version"], facts["phase"]) == (1, "download")
    total = sum(map(len, bench.hub.models[NAME]["main"].values()))
    assert 0 < facts["download"]["bytesDone"] <= facts["download"]["bytesTotal"] == total
    assert all(isinstance(facts["download"][key], int) for key in ("bytesPerSecond", "filesDone", "filesTotal"))
    lines = ("".join(printed) + capsys.readouterr().out).splitlines()
    assert all(line.isascii() and line.startswith("download: ") for line in lines)
    assert any(" of 614.1 KiB (" in line and "/s" in line and "of 8 files" in line for line in lines)


def test_a_proxy_is_used(bench, monkeypatch):
    """The hub's name is one that only the proxy knows."""
    bench.hub.redirects = False
    monkeypatch.setenv("HTTP_PROXY", bench.hub.url)
    monkeypatch.setenv("NO_PROXY", "")
    ends_well(bench, "--endpoint", "http://hub.example")


def test_who_waits_tells_how_far_the_other_is(bench, monkeypatch, capsys):
    """And takes over when the other falls silent."""
    from windlass_download import command, job
    from windlass_download.claim import Claimant
    from windlass_download.place import place_of

    now, printed = 0.0, list[str]()
    monkeypatch.setattr(command, "LINE_S", 0.1)
    monkeypatch.setattr(job, "WAIT_S", 0.1)
    monkeypatch.setattr(job, "Claimant", lambda *words: Claimant(*words[:-1], lambda: now))
    bench.volume.joinpath("models").mkdir()
    staging = place_of(bench.volume, "models/tiny").staging
    staging.mkdir()
    other = Claimant(staging, "other", 60, time.monotonic).take()
    told = {"bytesDone": 5 << 20, "bytesTotal": 10 << 20, "bytesPerSecond": 1 << 20, "filesDone": 1, "filesTotal": 4}

    said = "another download of this target is under way: 5.0 MiB of 10.0 MiB (50 %), 1.0 MiB/s, 1 of 4 files"

    def is_reported():
        printed.append(capsys.readouterr().out)
        return f"download: {said}" in "".join(printed).splitlines()

    def fall_silent():
        nonlocal now
        wait_until(is_reported)
        now += 61

    other.renew(told)
    silent = threading.Thread(target=fall_silent, daemon=True)
    silent.start()
    ends_well(bench, "--stale-s", "60")
    silent.join()
    assert now == 61
