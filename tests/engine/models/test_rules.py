"""Our readings of adapters' tensors, KV caches and weight files are those of the engine's own functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from windlass_sizing.files.tensor_names import adapter_tensors
from windlass_sizing.files.weight_files import hidden_mistrals, wanted_files
from windlass_sizing.model import lora_tensors
from windlass_sizing.model.quantized import packing_of

CASES = json.loads((Path(__file__).parents[3] / "lib/sizing/tests/data/engine/rules.json").read_text())
FORMATS = {None: "auto", 8: "fp8", 4.5: "nvfp4"}


@pytest.fixture(scope="module")
def found(engine: Any) -> dict[str, Any]:
    """The verdict of the engine's functions on every case."""
    return engine.result("/repo/tests/engine/models/print_rules.py", timeout_s=300)


def test_tensors_of_adapters(found: dict[str, Any]) -> None:
    """A tensor that the engine takes from no adapter is told before it is loaded."""
    ours = {name: lora_tensors.problems([f"base_model.model.{name}"], "", None)[0] == "" for name in CASES["tensors"]}
    assert ours == found["tensors"]


def test_pickles_of_adapters(found: dict[str, Any], tmp_path: Path) -> None:
    """Their names are read without torch, and a file with more than tensors is refused."""
    file = tmp_path / "adapter_model.bin"
    for name, (content, loaded) in found["pickles"].items():
        file.write_bytes(bytes.fromhex(content))
        tensors = adapter_tensors(file)
        assert (None if isinstance(tensors, str) else sorted(tensors)) == loaded, name


def test_formats_of_kv_caches(found: dict[str, Any]) -> None:
    """By bits: the engine's spellings of FP8 are one format."""
    packings = {name: packing_of({"quantization_config": one}, {}) for name, one in CASES["kv"].items()}
    ours = {name: FORMATS[packing.kv_bits if packing else None] for name, packing in packings.items()}
    assert ours == {name: "fp8" if one.startswith("fp8") else one for name, one in found["kv"].items()}


@pytest.mark.parametrize("name", CASES["files"])
def test_weight_files(found: dict[str, Any], tmp_path: Path, name: str) -> None:
    """The engine refuses what inspection finds missing, and reads the files that inspection counts."""
    there, indexes = CASES["files"][name]
    for file in there:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    for file, named in indexes.items():
        (tmp_path / file).write_text(json.dumps({"weight_map": dict(enumerate(named))}))
    counted = wanted_files(tmp_path)
    is_whole = set(counted) <= set(there) and not hidden_mistrals(tmp_path)
    assert found["files"][name] == (sorted(counted) if is_whole else None)
