"""`windlass bench compare`: pairs by place and load, warnings, and the command on folders."""

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.bench.comparing.ratio import Verdict
from windlass.bench.comparing.series import Run, compare
from windlass.cli.main import app

from .samples import RESULT


def run(place: str, date: str, **fields: object) -> Run:
    """A result with fields changed."""
    return Run(place, RESULT | {"date": date} | fields)


A = [run(f"c/round-{n}", f"20250101-0{n}0000", output_throughput=100.0 + n, mean_ttft_ms=50.0) for n in (1, 2, 3)]
B = [run(f"c/round-{n}", f"20250101-0{n}3000", output_throughput=120.0 + n, mean_ttft_ms=50.0) for n in (1, 2, 3)]


def verdicts(a: list[Run], b: list[Run]) -> dict[str, Verdict]:
    return {row.metric.field: row.verdict for row in compare(a, b, 0.02).rows}


def test_pairs_of_rounds() -> None:
    """A figure that rose in each pair is better, one that is equal is the same; nothing is warned about."""
    found = compare(A, B, 0.02)
    assert verdicts(A, B)["output_throughput"] is Verdict.BETTER
    assert verdicts(A, B)["mean_ttft_ms"] is Verdict.SAME
    assert verdicts(B, A)["output_throughput"] is Verdict.WORSE
    assert {row.ratio.pairs for row in found.rows} == {3}
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (A, B[:2], "1 runs have no run of the same place"),
        (A[:1], B[:1], "one pair has no spread"),
        (A, [run(one.place, "20250102-010000") for one in B], "one side ended before the other began"),
        (A, [run(one.place, one.ended, total_output_tokens=1500) for one in B], "the number of generated tokens"),
        (A, [run(one.place, one.ended, failed=2) for one in B], "6 requests failed"),
    ],
)
def test_warnings(a: list[Run], b: list[Run], said: str) -> None:
    """What makes a comparison other than it looks is said."""
    assert [sentence[: len(said)] for sentence in compare(a, b, 0.02).warnings] == [said]


def test_another_load_is_no_pair() -> None:
    """Ten clients are not held against one."""
    other = [run(one.place, one.ended, max_concurrency=10) for one in B]
    assert compare(A, other, 0.02).rows == ()


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A and B as `bench run` leaves them."""
    for name, runs in (("a", A), ("b", B)):
        for one in runs:
            (tmp_path / name / one.place).mkdir(parents=True)
            (tmp_path / name / one.place / "result.json").write_text(json.dumps(dict(one.fields)))
    return tmp_path / "a", tmp_path / "b"


def test_command(folders: tuple[Path, Path]) -> None:
    """As a table, as CSV and as JSON."""
    words = ["bench", "compare", *map(str, folders)]
    table = CliRunner().invoke(app, words)
    assert table.exit_code == 0
    (line,) = [line for line in table.output.splitlines() if "Output token throughput" in line]
    assert line.split()[-10:] == ["102.00", "122.00", "1.196", "1.191", "to", "1.201", "3", "B", "is", "better"]
    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(app, [*words, "-o", "csv"]).output)))
    assert {"Figure": "Output token throughput (tok/s)", "Pairs": "3", "Verdict": "better"}.items() <= rows[1].items()
    found = json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).output)
    assert (found["rows"][1]["field"], found["rows"][1]["verdict"], found["warnings"]) == (
        "output_throughput",
        "better",
        [],
    )


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("empty", "holds no result.json"),
        ("broken", "is no result of a benchmark"),
        ("unlike", "no two runs of the same"),
    ],
)
def test_refusals(folders: tuple[Path, Path], tmp_path: Path, spoil: str, said: str) -> None:
    """One sentence that says what to name."""
    other = tmp_path / "other"
    (other / "x").mkdir(parents=True)
    if spoil != "empty":
        (other / "x/result.json").write_text("{" if spoil == "broken" else json.dumps(RESULT))
    refused = CliRunner().invoke(app, ["bench", "compare", str(folders[0]), str(other)])
    assert said in str(refused.exception)
