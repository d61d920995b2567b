"""Which weight files are read ahead, and in which order."""

import json
from pathlib import Path

import pytest
from windlass.startup.files import INDEX_OF, WeightFile, choose, find

SAFE_INDEX = INDEX_OF[".safetensors"]


@pytest.mark.parametrize(
    ("sizes", "indexes", "chosen"),
    [
        pytest.param({"b.safetensors": 1, "a.safetensors": 1, "config.json": 1}, {}, ("a.safetensors", "b.safetensors"),
                     id="sorted"),
        pytest.param({"model-10.safetensors": 1, "model-9.safetensors": 1}, {},
                     ("model-9.safetensors", "model-10.safetensors"), id="numbers-are-numbers"),
        pytest.param({"model.safetensors": 5, "pytorch_model.bin": 5}, {}, ("model.safetensors",), id="twins"),
        pytest.param({"pytorch_model.bin": 5, "training_args.bin": 1}, {}, ("pytorch_model.bin",), id="bin"),
        pytest.param({"a-2.safetensors": 1, "a-1.safetensors": 1, "old.safetensors": 1},
                     {SAFE_INDEX: ["a-2.safetensors", "a-1.safetensors", "gone.safetensors"]},
                     ("a-1.safetensors", "a-2.safetensors"), id="index"),
        pytest.param({"model.safetensors": 1, "consolidated.safetensors": 1}, {}, ("model.safetensors",),
                     id="second-copy"),
        pytest.param({"consolidated.safetensors": 1}, {}, ("consolidated.safetensors",), id="only-copy"),
        pytest.param({"q4.gguf": 1}, {}, ("q4.gguf",), id="gguf"),
        pytest.param({"model.safetensors": 0, "config.json": 1}, {}, (), id="nothing"),
    ],
)  # fmt: skip
def test_choose(sizes: dict, indexes: dict, chosen: tuple) -> None:
    """The engine's files in the engine's order, nothing else."""
    assert choose(sizes, indexes) == chosen


def test_find_reads_index_and_sizes(tmp_path: Path) -> None:
    """The shell reads what `choose` decides from; a broken index counts as none."""
    for name in ("b.safetensors", "a.safetensors"):
        (tmp_path / name).write_bytes(b"12345")
    (tmp_path / SAFE_INDEX).write_text(json.dumps({"weight_map": {"w": "b.safetensors"}}))
    assert find(tmp_path) == (WeightFile(tmp_path / "b.safetensors", 5),)
    (tmp_path / SAFE_INDEX).write_text("{")
    assert [file.path.name for file in find(tmp_path)] == ["a.safetensors", "b.safetensors"]
    assert find(tmp_path / "nope") == ()
