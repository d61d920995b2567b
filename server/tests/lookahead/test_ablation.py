"""The ablation of the speculation policy, as far as it goes without a GPU: its order, time, tables and switch."""

import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from windlass_lookahead.policy import RULES, SpeculationPolicy, config, drafts_to_plan
from windlass_testbed.waiting import wait_until

BENCHMARKS = Path(__file__).parents[3] / "benchmarks/lookahead"
NEVER = ("planning-trust", "planning-share")
"""Rules that a test takes as new: every rule of the policy has run on a card."""


@pytest.fixture(scope="module")
def programs():
    """The programs find their modules beside themselves, and no other test does."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import ablation
        import ablation_table
        import simulated

        yield SimpleNamespace(ablation=ablation, table=ablation_table, simulated=simulated)
    names = {"arms", "ablation", "ablation_table", "on_device", "rule_switch", "simulated", "budgets"}
    for name in names - before:
        sys.modules.pop(name, None)


class Clock:
    """Time passes only in runs."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Arm:
    """An engine whose tokens take longer without a rule: a tenth without `batch-mean`."""

    def __init__(self, clock, run_s=0.5):
        self.clock, self.run_s, self.rules, self.log = clock, run_s, [], []

    def ask(self, word, *values):
        self.log.append((word, *values[:2]))
        if values[:1] == ("without",):
            self.rules = values[1]
        if values[:1] == ("figures",):
            return dict.fromkeys(("steps", "missed", "wait_us", "num_iters", "lookahead_len", "hit_len"), 0)
        self.clock.now_s += self.run_s if word == "run" and values[1] > 2 else 0
        return {"ms": 2.2 if "batch-mean" in self.rules else 2.0} if word == "run" else None


def measured(programs, folder, seconds, *, rules, batches=(64, 10, 1), run_s=0.5):
    """The bench after a measurement of two workloads in this time."""
    clock = Clock()
    rows = [([1, 2], [3, 4])] * 200
    with (folder / "out.jsonl").open("w") as file:
        bench = programs.ablation.Bench(Arm(clock, run_s), file, 64, clock=clock)
        asked = SimpleNamespace(only=["chat", "agent"], batches=batches)
        cells = programs.ablation.cells_of({"chat": ([], rows), "agent": ([], rows)}, asked)
        programs.ablation.measure(bench, cells, rules, 0.0, seconds)
    return bench


@pytest.mark.parametrize("count", [1, 3, 4, 5, 19])
def test_a_variant_runs_between_two_runs_with_all_rules(programs, count):
    """A variant that always ran first, or far from a run with all rules, would meet another machine than that one."""
    variants = [str(number) for number in range(count)]
    rounds = [programs.ablation.sequence(variants, number) for number in range(2 * count)]
    for one in rounds:
        assert one[0] == one[-1] == "all rules"
        assert sorted(set(one) - {"all rules"}) == sorted(variants)
        places = [at for at, name in enumerate(one) if name == "all rules"]
        assert all(after - before <= 5 for before, after in pairwise(places))
    assert all(len({one.index(name) for one in rounds}) > 1 for name in variants) or count == 1


def decisions(rules, least, most, seed=1):
    """Of one policy over 400 steps of a drawn batch, as the scheduler and the manager of verification see them."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    policy = SpeculationPolicy(6, config(rules))
    found = []
    for _ in range(400):
        rows = chance.randint(least, most)
        ids, decoding = [str(number) for number in range(rows)], chance.random() < 0.9
        policy.doorbell(chance.uniform(2_000, 6_000), chance.random() < 0.1, rows)
        drafts = [sorted((chance.random() ** 3 for _ in range(6)), reverse=True) for _ in ids]
        policy.completed(rows, decoding, chance.random() < 0.8, chance.choice([0, 0, chance.randint(1, 6)]))
        for name, survivals in zip(ids, drafts, strict=True):
            policy.drafted(name, survivals, sum(survivals))
        policy.update_planning(ids, decoding)
        budgets = [policy.draft_budget(sum(one)) for one in drafts]
        found.append([drafts_to_plan(budget, 6, is_full=False) for budget in budgets])
        costs = [3.0 + 0.05 * drafts for drafts in range(1 + 6 * rows)]
        found.append(policy.drafts_to_verify(ids, [6] * rows, costs, rows, decoding, chance.randint(0, 2)))
    return found


def test_the_rules_that_are_left_out_of_a_cell_change_no_decision_there(programs):
    for rule in RULES:
        for batch, least, most in ((10, 1, 16), (64, 17, 64)):
            is_same = decisions([rule.name], least, most) == decisions([], least, most)
            assert is_same or rule.name in programs.ablation.relevant([rule.name], batch), (rule.name, batch)


def test_the_rules_that_never_ran_come_first(programs, tmp_path, monkeypatch):
    rules = tuple(replace(rule, ran_on_card=rule.name not in NEVER) for rule in RULES)
    monkeypatch.setattr(programs.ablation, "RULES", rules)
    bench = measured(programs, tmp_path, 200, rules=[rule.name for rule in RULES])
    stages = list(dict.fromkeys(row["stage"] for row in bench.rows))
    assert stages[:2] == ["never ran", "others"]
    first = {row["variant"] for row in bench.rows if row["stage"] == "never ran"}
    assert first == {*NEVER, "all rules", "all rules again"}


def test_no_time_goes_to_rules_that_never_ran_when_there_are_none(programs, tmp_path):
    bench = measured(programs, tmp_path, 200, rules=[rule.name for rule in RULES])
    assert next(row["stage"] for row in bench.rows) == "others"


@pytest.mark.parametrize("seconds", [1, 60, 300])
def test_the_time_is_not_passed(programs, tmp_path, seconds):
    bench = measured(programs, tmp_path, seconds, rules=[rule.name for rule in RULES])
    assert bench.clock() <= seconds
    assert bool(bench.rows) == (seconds > 1)


def test_more_rounds_are_for_what_is_open_and_a_third_for_all_together(programs, tmp_path):
    bench = measured(programs, tmp_path, 400, rules=["batch-mean", "extra-fade", "late-host"])
    runs = Counter(row["variant"] for row in bench.rows if row["stage"] == "more")
    assert runs["extra-fade"] > 0
    settled = Counter((row["variant"], row["batch"]) for row in bench.rows)
    assert settled["extra-fade", 1] == 8, "within 1 % after eight pairs, it is measured no more"
    together = [row for row in bench.rows if row["variant"] == "off together"]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {"together": ["extra-fade", "late-host"]} in lines
    assert {(row["workload"], row["batch"]) for row in together} == {
        (name, batch) for name in ("chat", "agent") for batch in (1, 10, 64)
    }


def test_the_cache_is_set_back_and_the_rules_are_switched_before_each_run(programs, tmp_path):
    log = measured(programs, tmp_path, 60, rules=["batch-mean"]).arm.log
    calls = [one[1] for one in log if one[0] == "call"]
    assert calls[:4] == ["back", "without", "figures", "figures"]
    assert len(set(Counter(calls).values()) - {calls.count("figures")}) == 1


@pytest.mark.parametrize(
    ("intervals", "words"),
    [
        ([(0.995, 1.005), (1.02, 1.04)], "stays: slower"), ([(0.94, 0.98), None], "goes: faster"),
        ([(0.995, 1.005), (0.999, 1.01)], "goes: moves nothing by 1 %"),
        ([(0.98, 1.03)], "open: moves nothing by more than 3.0 %"),
        ([None, None], "open: too few pairs"),
    ],
)  # fmt: skip
def test_a_rule_stays_when_a_number_of_requests_is_slower_without_it(programs, intervals, words):
    assert programs.table.verdict(intervals).startswith(words)


def test_a_round_that_was_cut_off_has_no_pair_without_a_run_behind_it(programs):
    place = {"stage": "others", "workload": "chat", "batch": 1, "round": 0}
    runs = [("all rules", 2.0), ("a", 2.2), ("all rules", 2.42), ("b", 2.0)]
    pairs = programs.table.pairs_of({**place, "variant": name, "ms": ms} for name, ms in runs)
    assert [(pair.variant, round(pair.ratio, 6)) for pair in pairs] == [("a", 1.0)]


def test_two_runs_of_a_round_are_one_pair(programs):
    """They share their runs with all rules; as two, they would bound the median too closely."""
    place = {"stage": "together", "workload": "chat", "batch": 1, "round": 0}
    runs = [("all rules", 2.0), ("off together", 2.0), ("off together", 2.88), ("all rules", 2.0)]
    (pair,) = programs.table.pairs_of({**place, "variant": name, "ms": ms} for name, ms in runs)
    assert pair.ratio == pytest.approx(1.2)


def test_the_table_finds_the_rule_that_is_worth_its_place(programs, tmp_path):
    measured(programs, tmp_path, 400, rules=["batch-mean", "planning-price"])
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "ablation_table.py", tmp_path / "out.jsonl"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = {line.split(" | ")[0].strip("| "): line for line in done.stdout.splitlines()}
    assert lines["nothing"].endswith("| noise |")
    assert "1.100 (1.100 to 1.100), 8" in lines["batch-mean"]
    assert lines["batch-mean"].endswith("| stays: slower without it |")
    assert lines["planning-price"].endswith("| goes: moves nothing by 1 % |")
    assert "off together: planning-price" in done.stdout


def steps_of(arm, least):
    """Steps of the round trip that is in use, once its thread has caught up with the device."""
    wait_until(lambda: arm.ask("call", "figures")["steps"] >= least)
    return arm.ask("call", "figures")["steps"]


def test_rules_are_switched_between_two_runs_of_real_threads(programs):
    """Each set of rules keeps its round trip, which has all steps of its runs and no other's."""
    arm = programs.simulated.SimulatedArm(2)
    rows = [([1, 2, 3], [1, 2, 3] * 4), ([5, 6, 7], [5, 6, 7] * 4)]
    try:
        arm.ask("call", "base", "chat", [])
        counts = Counter()
        for rules, copy in ([], 0), (["judging"], 0), ([], 1), ([], 0):
            arm.ask("call", "back", "chat")
            arm.ask("call", "without", rules, copy)
            number = arm._device.number
            assert arm.ask("run", rows, 12, True)["ms"] > 0
            counts[*rules, copy] += arm._device.number - number
            assert steps_of(arm, counts[*rules, copy]) == counts[*rules, copy]
        assert arm._device.trip is arm._device.first
        trips = [trip.counts() for trip in arm._device.switch._trips.values()]
        assert not any(trip.lost for trip in trips) or any(trip.released for trip in trips), "but by a starved host"
        with pytest.raises(ValueError, match="has no rule 'luck'"):
            arm.ask("call", "without", ["luck"])
    finally:
        arm.end()


@pytest.mark.parametrize(("words", "complaint"), [
    (["w", "o", "--rules", "luck"], f"no rule luck; there are: {RULES[0].name}, "),
])  # fmt: skip
def test_a_rule_that_does_not_exist_is_named(words, complaint):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "ablation.py", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert complaint in done.stderr
