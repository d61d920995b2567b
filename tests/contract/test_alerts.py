"""Every alert of the operator's chart has unit tests, and promtool runs them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from windlass_testbed import prometheus
from windlass_testbed.cases import every_case
from windlass_testbed.paths import paths

sys.path.insert(0, str(Path(__file__).parent))

from alert_cases import CASES, RULES, Case, minutes, promtool_file, rules


@pytest.mark.parametrize("alert", rules())
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(alert: str) -> None:
    """A rule without the first may never fire, without the second it may fire always."""
    mine = [case for case in CASES if case.alert == alert]
    assert {case.labels is not None for case in mine} == {True, False}


@every_case("case", CASES)
def test_a_case_is_of_an_alert_and_waits_long_enough(case: Case) -> None:
    """Earlier than the rule's `for`, nothing fires, so such a case would show nothing."""
    rule = rules()[case.alert]
    assert case.minute > minutes(rule)
    templates = {name for name, text in rule["annotations"].items() if "{{" in text}
    assert set(case.texts) == (templates if case.labels is not None else set())


def test_a_case_that_fires_is_checked_before_it_may() -> None:
    """Twice each: a minute before the rule's time is over nothing fires."""
    tests = promtool_file("rules.yaml")["tests"]
    firing = [row for row in tests if row["alert_rule_test"][-1]["exp_alerts"]]
    assert [row["alert_rule_test"][0]["exp_alerts"] for row in firing] == [[]] * len(firing)


def test_promtool_runs_every_case(tmp_path: Path) -> None:
    """It also reads the rules as Prometheus does, and finds no mistake in them."""
    given, tests = tmp_path / "rules.yaml", tmp_path / "tests.yaml"
    given.write_text(yaml.safe_dump({"groups": yaml.safe_load(RULES.read_text())}))
    tests.write_text(yaml.safe_dump(promtool_file(str(given)), sort_keys=False))
    promtool = prometheus.ensure(paths()) / "promtool"
    for words in (("check", "rules", "--lint-fatal", given), ("test", "rules", tests)):
        done = subprocess.run([promtool, *words], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
