"""The ablation of the speculation policy, as far as it goes without a GPU: its order, its bounds, its table."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
from windlass_lookahead.policy import RULES

BENCHMARKS = Path(__file__).parents[3] / "benchmarks/lookahead"


@pytest.fixture(scope="module")
def ablation():
    """The programs find their modules beside themselves, and no other test does."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import ablation

        yield ablation
    for name in {"arms", "ablation", "on_device"} - before:
        sys.modules.pop(name, None)


def test_every_variant_takes_every_place(ablation):
    """A variant that always ran first would meet another machine than the last one."""
    variants = ["a", "b", "c", "d", "e"]
    rounds = [ablation.order(variants, number) for number in range(10)]
    assert all(sorted(one) == variants for one in rounds)
    assert all(len({one.index(name) for one in rounds}) > 2 for name in variants)


@pytest.mark.parametrize(
    ("intervals", "word"),
    [
        ([(0.995, 1.005), (1.02, 1.04)], "stays"), ([(0.94, 0.98)], "goes: without it a row is faster"),
        ([(0.995, 1.005), (0.999, 1.01)], "goes: no row moves"), ([(0.98, 1.03)], "open"),
    ],
)  # fmt: skip
def test_a_rule_stays_when_a_row_is_slower_without_it(ablation, intervals, word):
    assert ablation.verdict(intervals).startswith(word)


class Arm:
    """An engine that takes a tenth longer with the rule `batch-mean` off."""

    def __init__(self, log):
        self.log, self.rules = log, []

    def ask(self, word, *values):
        self.log.append((word, values[:1]))
        if values[:1] == ("without",):
            self.rules = values[1]
        return {"ms": 2.2 if self.rules == ["batch-mean"] else 2.0} if word == "run" else None


def test_the_table_finds_the_rule_that_is_worth_its_place(ablation, tmp_path):
    log = []
    asked = argparse.Namespace(rules=["batch-mean", "planning-price"], rounds=8)
    rows = [([1, 2], [3, 4])] * 3
    measured = ablation.measure((Arm([]), Arm(log)), "chat", rows, 2, asked)
    assert {len(times) for times in measured["times"].values()} == {8}
    assert log.count(("call", ("back",))) == 3 * 8, "the cache is set back before each run with lookahead"
    (tmp_path / "out.json").write_text(json.dumps([measured]))
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "ablation.py", "--table", tmp_path / "out.json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[2:] == [
        "| batch-mean | yes | 1.100 (chat at 2), 1.100 (chat at 2) | stays: without it a row is slower |",
        "| planning-price | no | 1.000 (chat at 2), 1.000 (chat at 2) | goes: no row moves by 1 % |",
    ]


def test_a_rule_that_does_not_exist_is_named():
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "ablation.py", "w", "o", "--rules", "luck"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"no rule luck; there are: {RULES[0].name}, " in done.stderr
