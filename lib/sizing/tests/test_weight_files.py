"""The engine's weight files out of a directory; what the engine itself says is in tests/engine/models/test_rules.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass_sizing.errors import CheckpointError
from windlass_sizing.files import weight_files
from windlass_sizing.files.weight_files import (
    SAFETENSORS,
    has_weights,
    hidden_mistrals,
    transformers_files,
    wanted_files,
)

CASES = json.loads((Path(__file__).parent / "data/engine/rules.json").read_text())["files"]
TWO = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
MISTRALS = [f"consolidated-0000{number}-of-00002.safetensors" for number in (1, 2)]
CHOSEN = {
    "one file": ["model.safetensors"],
    "both kinds": ["model.safetensors"],
    "an index and its files": TWO,
    "an index without its files": ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"],
    "a file that the index names is missing": TWO,
    "an index of other pickles": ["pytorch_model.bin"],
    "Mistral's file beside the same weights": ["consolidated.safetensors"],
    "Mistral's file beside one file": ["consolidated.safetensors"],
    "Mistral's shards by their index": MISTRALS,
    "a shard of Mistral's is missing": MISTRALS,
    "Mistral's index without its files": ["model.safetensors"],
    "Mistral's file in a folder": ["model.safetensors"],
    "Mistral's file in a folder and beside": ["consolidated.safetensors"],
    "Mistral's pickles": ["consolidated.00.bin", "consolidated.01.bin"],
    "files in .pt": ["model.pt"],
    "pickles of both ends": ["pytorch_model.bin"],
    "shards from zero": [f"model-0000{number}-of-00002.safetensors" for number in (0, 1, 2)],
}


def laid(place: Path, there: list[str], indexes: dict[str, list[str]]) -> Path:
    for file in there:
        (place / file).parent.mkdir(exist_ok=True)
        (place / file).touch()
    for file, named in indexes.items():
        (place / file).write_text(json.dumps({"weight_map": dict(enumerate(named))}))
    return place


@pytest.mark.parametrize("name", CASES)
def test_the_engines_files(tmp_path, name):
    """Of the first form that is there, each tensor once, with those that an index names and that are missing."""
    assert wanted_files(laid(tmp_path, *CASES[name])) == CHOSEN[name]


def test_shards_are_in_the_order_of_their_numbers(tmp_path):
    """As the engine reads them."""
    names = ["model-9.safetensors", "model-10.safetensors"]
    assert wanted_files(laid(tmp_path, names, {})) == names
    assert wanted_files(laid(tmp_path, names, {SAFETENSORS.index: names[::-1]})) == names


def test_the_copy_under_transformers_names(tmp_path):
    """Mistral's own file where there is no other."""
    assert transformers_files(laid(tmp_path, ["consolidated.safetensors"], {})) == ["consolidated.safetensors"]
    assert transformers_files(laid(tmp_path, TWO, {SAFETENSORS.index: TWO})) == TWO


def test_what_training_leaves_is_no_model(tmp_path):
    """The files of an adapter, and of the program that trained it."""
    names = ["adapter_model.bin", "adapter_model.pt", "adapter_model.safetensors", "training_args.bin", "optimizer.pt"]
    laid(tmp_path, [*names, "scheduler.pt", "rng_state.bin"], {})
    assert not has_weights(tmp_path)
    with pytest.raises(CheckpointError, match="no weight files"):
        wanted_files(tmp_path)


def test_only_files_with_content_are_a_models_weights(tmp_path):
    """A stray *.pt beside an adapter makes it no model; beside config.json it is one."""
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (tmp_path / "x.bin").mkdir()
    (tmp_path / "model.pt").write_bytes(b"1")
    assert not has_weights(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert has_weights(tmp_path)
    (tmp_path / "model.pt").unlink()
    assert not has_weights(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"1")
    assert has_weights(tmp_path)


def test_the_search_for_mistrals_files_ends_at_its_bound(tmp_path, monkeypatch):
    """Folders are searched level by level; one beside config.json is in its place."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/consolidated.safetensors").touch()
    assert hidden_mistrals(tmp_path) == "a/b/consolidated.safetensors"
    monkeypatch.setattr(weight_files, "ENTRIES_MAX", 2)
    assert hidden_mistrals(tmp_path) == ""
    monkeypatch.undo()
    (tmp_path / "consolidated.safetensors").touch()
    assert hidden_mistrals(tmp_path) == ""
