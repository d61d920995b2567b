"""Descriptions of model classes go from the image into the engine's cache folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from windlass.engine.startup import model_infos


def _shipped(folder: Path) -> Path:
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(f"shipped {name}")
    return folder


def test_missing_entries_are_copied_and_present_ones_stay(tmp_path: Path) -> None:
    shipped = _shipped(tmp_path / "shipped")
    there = tmp_path / "cache" / "modelinfos"
    there.mkdir(parents=True)
    (there / "a.json").write_text("the engine's own")
    assert model_infos.place({"VLLM_CACHE_ROOT": str(tmp_path / "cache")}, shipped) == 1
    assert {path.name: path.read_text() for path in there.iterdir()} == {
        "a.json": "the engine's own",
        "b.json": "shipped b",
    }


def test_the_folder_follows_the_engines_own_rule(tmp_path: Path) -> None:
    shipped = _shipped(tmp_path / "shipped")
    assert model_infos.place({"XDG_CACHE_HOME": str(tmp_path)}, shipped) == 2
    assert (tmp_path / "vllm" / "modelinfos" / "a.json").is_file()


def test_a_folder_that_cannot_be_made_ends_no_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert model_infos.place({"VLLM_CACHE_ROOT": str(tmp_path / "file")}, _shipped(tmp_path / "shipped")) == 0


def test_an_image_without_descriptions_copies_nothing(tmp_path: Path) -> None:
    assert model_infos.place({"VLLM_CACHE_ROOT": str(tmp_path)}, tmp_path / "none") == 0


def test_two_servers_of_one_cache_folder_write_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pods on one claim: the same process id, other host names."""
    shipped, beside = _shipped(tmp_path / "shipped"), set()
    copy = model_infos.shutil.copyfile

    def noted(source: Path, target: Path) -> None:
        beside.add(target.name)
        copy(source, target)

    monkeypatch.setattr(model_infos.shutil, "copyfile", noted)
    for host, process, root in (("pod-0", 7, "one"), ("pod-1", 7, "two"), ("pod-1", 8, "three")):
        monkeypatch.setattr(model_infos.socket, "gethostname", lambda host=host: host)
        monkeypatch.setattr(model_infos.os, "getpid", lambda process=process: process)
        assert model_infos.place({"VLLM_CACHE_ROOT": str(tmp_path / root)}, shipped) == 2
    assert len(beside) == 6


def test_one_file_that_cannot_be_copied_leaves_the_others(tmp_path: Path) -> None:
    shipped = _shipped(tmp_path / "shipped")
    (shipped / "0.json").mkdir()
    (shipped / "aa.json").symlink_to(tmp_path / "nowhere")
    assert model_infos.place({"VLLM_CACHE_ROOT": str(tmp_path / "cache")}, shipped) == 2
    assert sorted(path.name for path in (tmp_path / "cache" / "modelinfos").iterdir()) == ["a.json", "b.json"]
