"""Descriptions of model classes go from the image into the engine's cache folder."""

from __future__ import annotations

from pathlib import Path

from windlass.startup import model_infos


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
