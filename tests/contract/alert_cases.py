"""A unit test for each alert of the operator's chart: series, a time, and the alert that fires then, or none.

`test_alerts.py` gives them to promtool, and holds the table to the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).resolve().parents[2] / "charts/windlass/files/rules.yaml"
INTERVAL = "1m"
DAY_S = 86_400
ENGINE = '{namespace="team-a", pod="chat-0", model_name="m", engine="0"}'


@dataclass(frozen=True, slots=True)
class Case:
    """Series in promtool's notation, one sample a minute; `labels` None: the alert does not fire at that minute."""

    alert: str
    what: str
    series: Mapping[str, str]
    minute: int
    labels: Mapping[str, str] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    """Annotations that a template fills; the others are the rule's own."""


def _engine(running: str, prompt: str, generated: str) -> dict[str, str]:
    rows = (("num_requests_running", running), ("prompt_tokens_total", prompt), ("generation_tokens_total", generated))
    return {f"vllm:{name}{ENGINE}": values for name, values in rows}


def _services(reason: str, values: str) -> dict[str, str]:
    """As two operators export it: the one at work and its stand-by count the same services."""
    return {f'windlass_llmservices{{reason="{reason}", pod="{pod}"}}': values for pod in ("a", "b")}


def _service(reason: str, values: str) -> dict[str, str]:
    """One service as two operators export it."""
    labels = f'namespace="team-a", name="chat", reason="{reason}"'
    return {f'windlass_llmservice_ready{{{labels}, pod="{pod}"}}': values for pod in ("a", "b")}


def _ends_in(days: int) -> dict[str, str]:
    """Of a license that ends so long after promtool's time 0."""
    return {"windlass_license_expiry_timestamp_seconds": f"{days * DAY_S}x30"}


CASES = (
    Case("WindlassOperatorGone", "nobody holds the lease", {'windlass_leader{pod="a"}': "0x20"}, 6, {}),
    Case("WindlassOperatorGone", "no operator is scraped", {}, 6, {}),
    Case(
        "WindlassOperatorGone",
        "one works, one stands by",
        {'windlass_leader{pod="a"}': "1x20", 'windlass_leader{pod="b"}': "0x20"},
        20,
    ),
    Case("WindlassOperatorGone", "another takes over in two minutes", {"windlass_leader": "1x5 0 0 1x12"}, 12),
    Case("WindlassQueueOld", "a service waits for 61 seconds", {"windlass_queue_oldest_seconds": "61x20"}, 6, {}),
    Case("WindlassQueueOld", "a service waits for 60 seconds", {"windlass_queue_oldest_seconds": "60x20"}, 20),
    Case(
        "WindlassReconcileErrors",
        "an error a minute",
        {'windlass_reconcile_errors_total{pod="a"}': "0+1x40"},
        25,
        {"pod": "a"},
        {"description": "15 in 15 minutes. The operator's log has a traceback for each."},
    ),
    Case("WindlassReconcileErrors", "five errors", {"windlass_reconcile_errors_total": "0 1 2 3 4 5x30"}, 10),
    Case(
        "WindlassWatchDead",
        "one kind of two is not heard of",
        {'windlass_watch_alive{kind="Pod"}': "0x20", 'windlass_watch_alive{kind="Job"}': "1x20"},
        6,
        {"kind": "Pod"},
        {"summary": "The operator does not hear of Pod."},
    ),
    Case("WindlassWatchDead", "all are heard of", {'windlass_watch_alive{kind="Pod"}': "1x20"}, 20),
    Case(
        "WindlassCRDMismatch",
        "the CRD lacks two fields, as both operators see",
        {f'windlass_crd_mismatch_fields{{fields="missing",pod="{pod}"}}': "2x30" for pod in ("a", "b")},
        16,
        {"fields": "missing"},
        {"summary": "The CRD and the operator are of different releases: 2 fields are missing."},
    ),
    Case(
        "WindlassCRDMismatch",
        "an upgrade of chart and operator",
        {'windlass_crd_mismatch_fields{fields="unknown"}': "3x5 0x30"},
        20,
    ),
    Case(
        "LLMServiceNotServing",
        "one service has no model",
        _service("PathNotFound", "0x30"),
        16,
        {"namespace": "team-a", "name": "chat", "reason": "PathNotFound"},
        {
            "summary": "LLMService team-a/chat does not serve: PathNotFound.",
            "description": "kubectl describe llm -n team-a chat says what was found and what to do.",
        },
    ),
    Case("LLMServiceNotServing", "a service starts", _service("Starting", "0x40"), 40),
    Case("LLMServiceNotServing", "a service runs", _service("Running", "1x40"), 40),
    Case("LLMServiceNotServing", "a service is mended in ten minutes", _service("PathNotFound", "0x10 _x30"), 30),
    Case(
        "LLMServiceStandsStill",
        "a request runs and no token comes",
        _engine("1x30", "100x30", "50x30"),
        20,
        {"namespace": "team-a", "pod": "chat-0"},
        {"summary": "The engine of team-a/chat-0 has requests and makes no token."},
    ),
    Case("LLMServiceStandsStill", "tokens come slowly", _engine("1x30", "100x30", "50+1x30"), 30),
    Case("LLMServiceStandsStill", "no request is there", _engine("0x30", "100x30", "50x30"), 30),
    Case("LLMServiceWaitsForLicense", "one GPU is not licensed", _services("Unlicensed", "1x20"), 6, {}),
    Case("LLMServiceWaitsForLicense", "a service runs", _services("Running", "1x20"), 20),
    Case(
        "WindlassLicenseEndsInAMonth",
        "twenty days are left",
        _ends_in(20),
        12,
        {},
        {"summary": "The license ends in 19.99 days."},
    ),
    Case("WindlassLicenseEndsInAMonth", "31 days are left", _ends_in(31), 30),
    Case("WindlassLicenseEndsInAMonth", "there is no license", _ends_in(0), 30),
    Case(
        "WindlassLicenseEndsInAWeek",
        "three days are left",
        _ends_in(3),
        12,
        {},
        {"summary": "The license ends in 2.992 days; after that no pod starts."},
    ),
    Case("WindlassLicenseEndsInAWeek", "twenty days are left", _ends_in(20), 30),
)


def rules() -> dict[str, dict[str, Any]]:
    """The chart's alerts by name."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def minutes(rule: Mapping[str, Any]) -> int:
    """How long the expression must hold."""
    found = re.fullmatch(r"(\d+)m", rule["for"])
    assert found, rule["for"]
    return int(found[1])


def promtool_file(rule_file: str) -> dict[str, Any]:
    """The table as promtool reads it; a case that fires is also checked a minute before it may."""
    known = rules()
    tests = [_test(case, known[case.alert]) for case in CASES]
    return {"rule_files": [rule_file], "evaluation_interval": INTERVAL, "tests": tests}


def _test(case: Case, rule: Mapping[str, Any]) -> dict[str, Any]:
    checks = [_check(case, f"{case.minute}m", [_fired(case, rule)] if case.labels is not None else [])]
    if case.labels is not None:
        checks.insert(0, _check(case, f"{minutes(rule) - 1}m", []))
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": INTERVAL,
        "input_series": series,
        "alert_rule_test": checks,
    }


def _check(case: Case, at: str, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {"eval_time": at, "alertname": case.alert, "exp_alerts": expected}


def _fired(case: Case, rule: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**rule["labels"], **(case.labels or {})}
    return {"exp_labels": labels, "exp_annotations": {**rule["annotations"], **case.texts}}
