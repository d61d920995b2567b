"""A model directory with the file of `windlass quantize smoothquant`: counted once, and sized where it is alone.

`data/smoothquant` is a tiny Llama and the tool's own file of it: `server/bench/smoothquant_file.py` writes both.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from windlass_sizing.files.checkpoint import inspect
from windlass_sizing.files.source import read_facts
from windlass_sizing.files.weights import read_weights
from windlass_sizing.placement.formula import GIB, Serving, weights_gib
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

DATA = Path(__file__).parent / "data" / "smoothquant"
PLAIN = "model.safetensors"
LINEAR = 2 * (32 * (32 + 16 + 16 + 32) + 3 * 32 * 64)  # weights of both layers
OUTPUTS = 2 * (32 + 16 + 16 + 32 + 64 + 64 + 32)  # a float32 scale for each
EMBEDDINGS = 2 * 64 * 32  # in bfloat16, as the checkpoint stores them
PLAIN_BYTES = 2 * (LINEAR + EMBEDDINGS + 5 * 32)
FILE_BYTES = LINEAR + 4 * OUTPUTS + 2 * (EMBEDDINGS + 32) + 4 * 4 * 32  # the layers' norms in float32


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(DATA, tmp_path / "model"))


def an_index_of_files_that_are_gone(model: Path) -> None:
    shards = {f"w{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


def test_beside_a_checkpoint_its_bytes_are_not_added(model):
    """The checkpoint has its own size and format; the file is known beside."""
    facts = inspect(model).facts
    assert (facts.weights_bytes, facts.stored_dtype, facts.quantization) == (PLAIN_BYTES, "bfloat16", None)
    assert facts.smoothquant_bytes == FILE_BYTES
    assert facts == read_facts(model)


@pytest.mark.parametrize(
    ("method", "expected"), [(None, PLAIN_BYTES), ("smoothquant", FILE_BYTES), ("auto", FILE_BYTES)]
)
def test_each_method_is_sized_by_the_file_that_it_reads(model, method, expected):
    """smoothquant, and auto, which takes it where the file is there."""
    facts = inspect(model).facts
    assert weights_gib(facts, Serving(64, quantization=method)) * GIB == pytest.approx(expected)


def test_without_the_file_nothing_is_known_of_it(model):
    """And the formula counts smoothquant from the shape."""
    (model / SMOOTHQUANT_FILE).unlink()
    facts = inspect(model).facts
    assert (facts.weights_bytes, facts.smoothquant_bytes) == (PLAIN_BYTES, None)
    assert weights_gib(facts, Serving(64, quantization="smoothquant")) * GIB == pytest.approx(FILE_BYTES, rel=0.1)


@pytest.mark.parametrize("has_index", [False, True])
def test_alone_it_is_the_model(model, has_index):
    """Quantized with smoothquant, in the file's bytes, whatever index is left of the files that are gone."""
    (model / PLAIN).unlink()
    if has_index:
        an_index_of_files_that_are_gone(model)
    facts = inspect(model).facts
    assert (facts.quantization, facts.quantization_bits, facts.weights_bytes) == ("smoothquant", 8, FILE_BYTES)
    assert facts.params == pytest.approx(LINEAR + EMBEDDINGS, rel=0.02)
    assert weights_gib(facts, Serving(64, quantization="smoothquant")) * GIB == pytest.approx(FILE_BYTES)
    assert facts == read_facts(model)


def test_beside_an_index_of_files_that_are_gone_the_engine_reads_it_alone(model):
    """The index leaves a checkpoint in one file out."""
    an_index_of_files_that_are_gone(model)
    assert inspect(model).facts.quantization == "smoothquant"


def test_mistrals_file_in_a_folder_matters_not_where_the_file_is_alone(model):
    """The engine's search for weights is not made for it."""
    (model / PLAIN).unlink()
    (model / "original").mkdir()
    (model / "original/consolidated.safetensors").write_bytes(b"1")
    assert inspect(model).facts.quantization == "smoothquant"


def test_an_index_of_files_that_are_partly_there_is_a_broken_model(model):
    """A download that stopped is still told."""
    an_index_of_files_that_are_gone(model)
    (model / PLAIN).rename(model / "model-00001-of-00002.safetensors")
    assert inspect(model).reason == "ShardMissing"


def test_the_index_of_a_whole_checkpoint_names_its_files(model):
    """The file is counted beside shards as it is beside one file."""
    (model / PLAIN).rename(model / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    weights = read_weights(model)
    assert (weights.files, weights.tensor_bytes, weights.smoothquant_bytes) == (1, PLAIN_BYTES, FILE_BYTES)


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_file_that_is_cut_off_is_refused(model, is_alone):
    """It is read by the next start, so it must be whole."""
    if is_alone:
        (model / PLAIN).unlink()
    file = model / SMOOTHQUANT_FILE
    file.write_bytes(file.read_bytes()[:-1])
    report = inspect(model)
    assert (report.reason, SMOOTHQUANT_FILE in report.message) == ("ShardBroken", True)
