"""A directory whose weights are GGUF files: seen as what it is, and refused before a GPU is taken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from windlass_sizing.files.checkpoint import inspect
from windlass_sizing.files.source import read_facts
from windlass_sizing.files.weights import quantization_of
from windlass_sizing.quantization.decision import decide, of_facts
from windlass_sizing.quantization.question import Card

DATA = Path(__file__).parent / "data" / "smoothquant"
L20 = Card("NVIDIA L20", (8, 9))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The configuration and tokenizer of a small model, with its weights in one GGUF file."""
    copy = Path(shutil.copytree(DATA, tmp_path / "model"))
    for file in copy.glob("*.safetensors"):
        file.unlink()
    (copy / "model-Q4_K_M.gguf").write_bytes(b"GGUF" + bytes(60_000))
    return copy


def test_it_is_inspected_as_gguf(model):
    """With the bytes of its file."""
    facts = inspect(model).facts
    assert (facts.quantization, facts.weights_bytes) == ("gguf", 60_004)
    assert facts == read_facts(model)


@pytest.mark.parametrize("asked", [None, "auto", "ifq"])
def test_no_engine_of_ours_reads_it(model, asked):
    """The sentence says why, and what to serve instead."""
    problem = decide(asked, "auto", L20, *of_facts(inspect(model).facts)).problem
    assert problem is not None
    assert problem.sentence() == (
        "the checkpoint is quantized by gguf, which is a plug-in of the engine that no image installs; "
        "serve the unquantized checkpoint"
    )


def test_beside_safetensors_it_is_left_out(model):
    """The engine reads those."""
    shutil.copy(DATA / "model.safetensors", model)
    assert inspect(model).facts.quantization is None


@pytest.mark.parametrize(("names", "found"), [([], None), (["a.gguf", "b.gguf"], "gguf"), (["a.gguf", "b.bin"], None)])
def test_names_alone_tell(names, found):
    """As the server asks, which reads no weights."""
    assert quantization_of(names) == found
