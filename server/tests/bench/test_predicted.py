"""The plan's prediction beside a benchmark's measurements."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass.bench.running import report
from windlass.bench.running.matrix import Arm, Asked
from windlass.bench.running.predicted import Planned, Seen, predict, table, texts
from windlass_sizing.model.facts import from_config
from windlass_sizing.speed.predict import Prediction

from .samples import record

SHAPES = json.loads((Path(__file__).parents[3] / "benchmarks/predictions/shapes.json").read_text())
QWEN = from_config(SHAPES["qwen2-7b"] | {"max_position_embeddings": 32768, "torch_dtype": "bfloat16"})
H200 = Planned(QWEN, "H200")
MEASURED = {"median_ttft_ms": 20.0, "mean_tpot_ms": 5.0, "request_throughput": 7.0}


def seen(*words: str) -> Seen:
    return Seen(Arm("server", words), 10, 217.0, 196.0, MEASURED)


def test_a_row_has_both_and_by_how_much_they_differ():
    """Percent of the measurement."""
    found = predict(seen("--quantization", "none"), H200)
    assert isinstance(found, Prediction)
    headings, row = table([seen("--quantization", "none")], H200)
    named = dict(zip(headings, row, strict=True))
    assert named["TTFT P50"] == "20.0"
    assert named["TTFT P50 PREDICTED"] == f"{found.ttft_ms:.1f}"
    assert named["TTFT P50 OFF %"] == f"{100 * (found.ttft_ms / 20 - 1):+.0f}"
    assert named["REQ/S PREDICTED"] == f"{found.requests_per_s:.2f}"


def test_quantization_is_read_as_it_was_given():
    """Both spellings of a flag with a value."""
    plain, packed = predict(seen(), H200), predict(seen("--quantization=fp8"), H200)
    assert packed == predict(seen("--quantization", "fp8"), H200)
    assert packed.ms_per_token < plain.ms_per_token


@pytest.mark.parametrize(
    ("words", "planned", "why"),
    [
        (("--use-lookahead",), H200, "drafted tokens"),
        (("-tp", "1", "--tensor-parallel-size", "2"), H200, "several GPUs"),
        (("--enforce-eager",), H200, "CUDA graphs"),
        ((), Planned(QWEN, ""), "no GPU that is known"),
        ((), Planned(QWEN, "L20"), "no prediction for L20"),
    ],
)
def test_the_reason_stands_below_the_table(words: tuple[str, ...], planned: Planned, why: str):
    """The measurement is there all the same."""
    found = texts([seen(*words)], planned)
    assert why in found["predictions.txt"]
    (row,) = csv.DictReader(io.StringIO(found["predictions.csv"]))
    assert (row["TTFT P50"], row["TTFT P50 PREDICTED"], row["TTFT P50 OFF %"]) == ("20.0", "-", "-")


def test_only_closed_loads_are_predicted():
    """A rate of arrivals, or no limit, says nothing of how many run at once; tokens are those of a request."""
    one = record()
    cells = [
        report.Cell(Arm(one.load.name), asked, 1, {}, None, None)
        for asked in (Asked(4), Asked(None), Asked(4, None, "2"))
    ]
    folder = f"{cells[0].arm.folder}/{Asked(4).folder}/round-01"
    (found,) = report.seen([replace(one, point=replace(one.point, folder=folder))], cells)
    assert (found.requests, found.tokens_in, found.tokens_out) == (4, 475.0, 400.0)
