"""The table of a GPU's run: the median's bound, the order of a pair, files of any age, and what of the aims is met."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks/lookahead"


@pytest.fixture(scope="module")
def on_device():
    """The programs find their modules beside themselves, and no other test does."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import on_device

        yield on_device
    for name in {"arms", "device_table", "on_device"} - before:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def device_table(on_device):
    import device_table

    return device_table


def a_row(workload="chat", batch=1, ratios=(0.9,) * 7, **more):
    pairs = [(2.0, 2.0 * ratio) for ratio in ratios]
    return {"workload": workload, "batch": batch, "pairs": pairs, "hit_len_per_iter": 0.25, **more}


@pytest.mark.parametrize(
    ("count", "rank", "coverage"),
    [(5, 5, 31 / 32), (7, 7, 127 / 128), (8, 7, 247 / 256), (11, 9, 1981 / 2048), (13, 10, 7814 / 8192)],
)  # fmt: skip
def test_the_bound_of_the_median_is_the_least_order_statistic_that_covers_it(on_device, count, rank, coverage):
    assert on_device.upper_of_median(range(count, 0, -1)) == (rank, coverage)


def test_the_bound_forgets_how_far_out_the_outliers_are(on_device):
    assert on_device.upper_of_median([1.0] * 10 + [9.0, 2.0, 5.0])[0] == 1.0


def test_four_values_bound_no_median(on_device):
    with pytest.raises(ValueError, match="4 values bound no median"):
        on_device.upper_of_median([1.0] * 4)


@pytest.mark.parametrize("period", [1, 2, 3])
def test_each_engine_begins_as_often_however_often_the_requests_come_again(on_device, period):
    for start in range(period):
        began = [on_device.ours_first(pair) for pair in range(start, 12, period)]
        assert abs(2 * sum(began) - len(began)) <= 2
        assert set(began) == {False, True}


def test_a_pair_is_without_and_with_lookahead_whichever_began(on_device):
    asked = []

    class Simulated:
        def __init__(self, name, ms):
            self.name, self.ms = name, ms

        def ask(self, *_):
            asked.append(self.name)
            return {"ms": self.ms}

    arms = Simulated("none", 3.0), Simulated("lookahead", 2.0)
    assert [on_device.timed(arms, [], pair) for pair in (0, 1)] == [(3.0, 2.0)] * 2
    assert asked == ["none", "lookahead", "lookahead", "none"]


def test_a_cell_is_computed_from_the_pairs(device_table):
    rows = device_table.rows_of([a_row(ratios=[0.5, 0.5, 0.5, 0.5, 0.4, 0.4, 1.2], ratio_upper=7.0)])
    earlier = device_table.rows_of([a_row(ratios=[0.8] * 7), a_row(batch=10)])
    assert device_table.table(rows, earlier) == [
        "| workload | 1 request |",
        "| --- | --- |",
        "| chat | 2.00 / 1.00 = **2.00×** (0.25; +20.0 %), was 1.25× |",
    ]
    assert device_table.cell(None, earlier["chat", 10]) == "not run, was 1.11×"


def test_the_oldest_files_keep_rows_with_an_unfair_cache_to_themselves(device_table):
    old = {"device": "H100", "rows": [a_row(), a_row(batch=10, cache_had_seen_part_of_it=True)]}
    assert list(device_table.rows_of(old)) == [("chat", 1)]


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        pytest.param([a_row("gsm8k warm", batch, [0.7] * 7) for batch in (1, 10, 64)],
            ["not run;", "met, 2 of 2 reach it.", "met, 3 of 3 reach it."], id="met"),
        pytest.param([a_row("repeats", 64, [0.6] * 7)],
            ["**missed**, 0 of 1 reach it; not: repeats at 64 1.67×; not run:", "not run;", "met,"], id="too slow"),
        pytest.param([a_row("agent", 1, [1.0] * 6 + [1.02])],
            ["not run;", "not run;", "**missed**, 0 of 1 reach it; not: agent at 1 +2.0 %;"], id="one in seven"),
        pytest.param([a_row("agent", 1, [1.0] * 10 + [1.02] * 3)],
            ["not run;", "not run;", "met, 1 of 1 reach it;"], id="three in thirteen"),
    ],
)  # fmt: skip
def test_the_aims_say_what_is_met(device_table, rows, lines):
    table = device_table.rows_of(rows)
    sentences = [device_table.sentence(device_table.judged(aim, table)) for aim in device_table.AIMS]
    assert [line in one for line, one in zip(lines, sentences, strict=True)] == [True] * 3, sentences


def test_the_kept_results_can_be_read():
    found = run(BENCHMARKS / "results/h200-2026-11-22-seventh.json", "-o", "json")
    rows = {(row["workload"], row["batch"]): row for row in json.loads(found.stdout)["rows"]}
    assert round(rows["no repeats", 1]["ratio_upper"], 3) == 1.05


def test_another_file_is_refused_in_a_sentence():
    found = run(BENCHMARKS / "results/h200-2026-11-22-identity.json")
    assert found.returncode == 2
    assert "was not written by on_device.py" in found.stderr


def run(*words):
    command = [sys.executable, BENCHMARKS / "device_table.py", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
