"""Which weight files are read ahead, and how large they are."""

import json
from pathlib import Path

from windlass.engine.startup.files import WeightFile, find, missing
from windlass_sizing.files.weight_files import SAFETENSORS, transformers_files


def test_find_reads_index_and_sizes(tmp_path: Path) -> None:
    """The engine's files that are there, none that are empty; a broken index is told by the inspection."""
    for name, content in {"b.safetensors": b"12345", "a.safetensors": b"12345", "empty.safetensors": b""}.items():
        (tmp_path / name).write_bytes(content)
    index = tmp_path / SAFETENSORS.index
    index.write_text(json.dumps({"weight_map": {"v": "b.safetensors", "w": "empty.safetensors", "x": "gone"}}))
    assert find(tmp_path) == (WeightFile(tmp_path / "b.safetensors", 5),)
    index.write_text("{")
    assert find(tmp_path) == ()
    assert missing(tmp_path).startswith(f"has weights that cannot be read: {SAFETENSORS.index} has no")
    index.write_text(json.dumps({"weight_map": {"w": "empty.safetensors"}}))
    assert missing(tmp_path) == "has weight files that are empty or missing: empty.safetensors; copy them again"
    assert find(tmp_path / "nope") == ()


def test_the_copy_under_transformers_names_is_found(tmp_path: Path) -> None:
    """For a merge, while the engine reads Mistral's file."""
    for name in ("consolidated.safetensors", "model.safetensors"):
        (tmp_path / name).write_bytes(b"12345")
    assert [file.path.name for file in find(tmp_path)] == ["consolidated.safetensors"]
    assert [file.path.name for file in find(tmp_path, transformers_files)] == ["model.safetensors"]
