"""The command against a hub of both protocols: what lies on the volume in the end, and what was asked for."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from windlass_download.__main__ import main

from .conftest import NAME, a_model, content
from .hub import commit_of

HUBS = ["huggingface", "modelscope"]


@pytest.mark.parametrize("hub", HUBS)
def test_a_model_is_fetched_whole(bench, hub, capsys):
    """Byte for byte, with a marker, and nothing else left on the volume."""
    code, report = bench.run(hub=hub)
    files = bench.hub.models[NAME]["main"]
    assert (code, report["ok"]) == (0, True)
    assert content(bench.target) == files
    assert sorted(entry.name for entry in bench.target.parent.iterdir()) == ["tiny"]
    marker = json.loads((bench.target / ".windlass-complete.json").read_text())
    assert (marker["hub"], marker["name"], marker["commit"]) == (hub, NAME, commit_of(files))
    assert report["download"]["bytesFetched"] == sum(map(len, files.values()))
    assert capsys.readouterr().out.splitlines()[-1].startswith("download: complete: ")


@pytest.mark.parametrize("hub", HUBS)
def test_a_second_start_asks_for_nothing(bench, hub):
    bench.run(hub=hub)
    bench.hub.seen.clear()
    code, report = bench.run(hub=hub)
    assert (code, report["ok"], report["download"]["bytesFetched"]) == (0, True, 0)
    assert bench.hub.seen == []


def test_verify_finds_a_damaged_file_and_fetches_it_alone(bench):
    bench.run()
    shard = bench.target / "model-1.safetensors"
    shard.write_bytes(bytes(len(shard.read_bytes())))
    assert bench.run()[1]["download"]["bytesFetched"] == 0
    _, report = bench.run("--verify")
    assert report["download"]["bytesFetched"] == shard.stat().st_size
    assert content(bench.target) == bench.hub.models[NAME]["main"]


@pytest.mark.parametrize("path", ["models/tiny", ""], ids=["directory", "root"])
def test_another_revision_fetches_what_differs(bench, path):
    """Adapters that the user put into the directory stay; files that the revision dropped go."""
    bench.run(path=path)
    target = bench.volume / path
    (target / "adapter").mkdir()
    (target / "adapter" / "adapter_config.json").write_text("{}")
    new = {**bench.hub.models[NAME]["main"], "config.json": b'{"seed": 2}', "model-1.safetensors": b"x" * 70_000}
    del new["sub/notes.txt"]
    bench.hub.models[NAME]["v2"] = new
    code, report = bench.run("--revision", "v2", path=path)
    assert (code, report["download"]["bytesFetched"]) == (0, 70_000 + len(new["config.json"]))
    assert content(target) == {**new, "adapter/adapter_config.json": b"{}"}
    assert [entry.name for entry in bench.volume.rglob(".windlass-download-*")] == []


def test_the_root_of_a_volume_can_be_a_target(bench):
    (bench.volume / "lost+found").mkdir()
    code, _ = bench.run(path="")
    assert (code, content(bench.volume)) == (0, bench.hub.models[NAME]["main"])


def test_a_directory_whose_parent_may_not_be_written_is_filled_in_place(bench, monkeypatch):
    """As on a node, where an administrator gave the one directory to user 10001."""
    bench.target.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, _: path != bench.target.parent)
    before = bench.target.parent.stat().st_mtime_ns
    code, _ = bench.run()
    assert (code, content(bench.target)) == (0, bench.hub.models[NAME]["main"])
    assert bench.target.parent.stat().st_mtime_ns == before


def test_a_copy_that_is_there_is_adopted(bench):
    """Files of the same content are hashed, not fetched."""
    files = bench.hub.models[NAME]["main"]
    bench.target.mkdir(parents=True)
    (bench.target / "model-0.safetensors").write_bytes(files["model-0.safetensors"])
    _, report = bench.run()
    assert report["download"]["bytesFetched"] == sum(map(len, files.values())) - len(files["model-0.safetensors"])
    assert content(bench.target) == files


@pytest.mark.parametrize("place", ["config.json", "model-2.safetensors"])
def test_a_file_of_somebody_else_is_never_overwritten(bench, place):
    bench.target.mkdir(parents=True)
    (bench.target / place).write_bytes(b"mine")
    code, report = bench.run()
    assert (code, report["ok"], report["reason"]) == (0, False, "DownloadConflict")
    assert place in report["message"]
    assert content(bench.target) == {place: b"mine"}


def test_another_model_is_never_overwritten(bench):
    bench.run()
    bench.hub.models["qwen/Other"] = {"main": a_model(2)}
    _, report = bench.run("--name", "qwen/Other")
    assert (report["ok"], report["reason"]) == (False, "DownloadConflict")
    assert content(bench.target) == bench.hub.models[NAME]["main"]


def test_include_and_exclude_choose(bench):
    bench.run("--include", "*.json", "--include", "model-*", "--exclude", "model-0*", "--exclude", "*.index.json")
    assert sorted(content(bench.target)) == [
        "config.json",
        "model-1.safetensors",
        "model-2.safetensors",
        "tokenizer.json",
    ]


def test_nothing_left_to_fetch_is_reported_with_names(bench):
    _, report = bench.run("--include", "*.gguf")
    assert (report["ok"], report["reason"]) == (False, "DownloadNotFound")
    assert "config.json, empty.txt, model-0.safetensors" in report["message"]


@pytest.mark.parametrize("hub", HUBS)
def test_the_token_goes_to_the_endpoint_alone(bench, hub, monkeypatch, capfd):
    """Never to the CDN, and never into a log, a message, or a file."""
    monkeypatch.setenv("WINDLASS_HUB_TOKEN", "secret-token")
    bench.hub.token = "secret-token"
    code, report = bench.run(hub=hub)
    assert (code, report["ok"]) == (0, True)
    home, storage = bench.hub.asked(host="hub"), bench.hub.asked(host="cdn")
    assert storage
    assert all(one.headers["authorization"] == "Bearer secret-token" for one in home)
    assert [one for one in storage if "authorization" in one.headers or "cookie" in one.headers] == []
    said = "".join(capfd.readouterr()) + (bench.folder / "log").read_text()
    said += (bench.target / ".windlass-complete.json").read_text()
    assert "secret-token" not in said


def test_storage_is_asked_for_the_parts_the_hub_once(bench):
    """The hub counts its requests; four parts of a file cost it at most one for each connection."""
    bench.run("--connections", "1")
    assert len(bench.hub.asked("model-0.safetensors")) == 1
    assert len(bench.hub.asked(host="cdn")) > 10


def test_a_server_without_ranges_is_streamed(bench):
    bench.hub.ranges = False
    code, report = bench.run()
    assert (code, report["ok"]) == (0, True)
    assert content(bench.target) == bench.hub.models[NAME]["main"]


@pytest.mark.parametrize("hub", HUBS)
def test_a_hostile_name_is_refused(bench, hub):
    """All of them stand in test_wanted."""
    row = {"type": "file", "path": "../evil", "size": 1, "oid": "0" * 40}
    bench.hub.extra_rows = [row if hub == "huggingface" else {"Path": "../evil", "Type": "blob", "Size": 1}]
    code, report = bench.run(hub=hub)
    assert (code, report["ok"], report["reason"]) == (0, False, "HubAnswerBroken")
    assert list(bench.volume.rglob("evil")) == []


def test_a_link_in_the_target_is_not_followed(bench):
    outside = bench.folder / "outside"
    outside.mkdir()
    bench.target.mkdir(parents=True)
    (bench.target / "sub").symlink_to(outside)
    assert bench.run()[1]["reason"] == "DownloadConflict"
    assert list(outside.iterdir()) == []


def test_a_path_that_leads_out_is_refused(bench):
    (bench.volume / "link").symlink_to(bench.folder)
    assert bench.run(path="../x")[1]["reason"] == "PathEscapes"
    assert bench.run(path="link/x")[1]["reason"] == "PathEscapes"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--endpoint", "ftp://x"], "--endpoint"),
        (["--name", "../x"], "--name"),
        (["--endpoint", "http://u:p@x"], "--end"),
    ],
)
def test_wrong_words_end_with_2(bench, words, said, capsys):
    assert main(bench.words(*words)) == 2
    assert said in capsys.readouterr().err


def test_a_volume_that_fails_at_the_first_look_is_a_sentence(tmp_path, monkeypatch):
    """As a share of NFS whose server has just come back does: the Job tries again."""
    look = Path.is_dir

    def broken(path):
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return look(path)

    monkeypatch.setattr(Path, "is_dir", broken)
    words = [f"--root={tmp_path}", "--hub=huggingface", "--name=a/b", f"--termination-log={tmp_path / 'log'}"]
    assert main(words) == 1
    report = json.loads((tmp_path / "log").read_text())
    assert report["message"] == "the volume failed: Input/output error; the Job tries again"
