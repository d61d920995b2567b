"""A service as text: what is wrong is seen first, figures are right, and nothing breaks on an empty status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from windlass_api.crd.status import CardBudget, PlanStatus
from windlass_client.values import Pod, service_of
from windlass_kubectl.paint import Branch, Paint
from windlass_kubectl.plan_tree import budget, headline, plan_branch, settings_branch
from windlass_kubectl.service_tree import HEADINGS, age, row, span, tree
from windlass_sizing.settings.setting import Setting

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PLAIN = Paint()


def a_service(**status: object):
    meta = {"name": "qwen", "namespace": "team", "creationTimestamp": "2026-01-01T20:00:00Z"}
    spec = {"model": {"id": "Qwen2", "source": {"pvc": {"claimName": "c"}}}}
    return service_of({"metadata": meta, "spec": spec, "status": status})


def a_condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T23:50:00Z"}  # fmt: skip


def test_a_service_without_a_status_says_what_that_means():
    assert PLAIN.tree(tree(a_service(), [], [], NOW, PLAIN)) == (
        "team/qwen  Qwen2  no status  -\n├─ no status yet: is the operator running?\n└─ no pods"
    )


def test_a_whole_tree():
    """Conditions with their age, the download, the plan, the pods."""
    service = a_service(
        ready="1/2",
        conditions=[
            a_condition("Ready", "False", "PartlyReady", "1 of 2 pods answers"),
            a_condition("Degraded", "True", "CrashLoop"),
            a_condition("Progressing", "True", "RollingOut"),
        ],
        download={"bytesDone": 2**30, "bytesTotal": 2**32, "bytesPerSecond": 2**20, "remainingSeconds": 3072},
        plan={"gpus": 1, "tp": 1, "gpuType": "L20", "maxModelLen": 8192},
    )
    pods = [
        Pod("p1", "Running", True, 0, "n1", "2026-01-01T23:00:00Z", ("server",), "Running", False),
        Pod("p2", "Running", False, 4, "n2", "2026-01-01T23:59:30Z", ("server",), "CrashLoopBackOff", True),
    ]
    assert PLAIN.tree(tree(service, pods, [], NOW, PLAIN)) == (
        "team/qwen  Qwen2  PartlyReady  1/2\n"
        "├─ conditions\n"
        "│  ├─ ✘ Ready PartlyReady (10m): 1 of 2 pods answers\n"
        "│  ├─ ✘ Degraded CrashLoop (10m)\n"
        "│  └─   Progressing RollingOut (10m)\n"
        "├─ download: 1.00 of 4.00 GiB (25 %), 1.0 MiB/s, 51m12s left\n"
        "├─ plan: 1 × L20, TP 1, context 8192\n"
        "└─ pods\n"
        "   ├─ ✔ p1 Running: ready, on n1, 1h\n"
        "   └─ ✘ p2 CrashLoopBackOff: not ready, being deleted, on n2, 4 restarts, 30s"
    )


CONDITIONS = {
    "good": (("Degraded", "False", "Settled", "what runs is what was asked for"), "good",
        "✔ not degraded (Settled, 10m): what runs is what was asked for"),
    "bad": (("Degraded", "True", "CrashLoop"), "bad", "✘ Degraded CrashLoop (10m)"),
    "unknown": (("Degraded", "Unknown", "Starting"), "wait", "… Degraded Starting (10m)"),
    "outdated": (("Outdated", "True", "EarlierOperator"), "wait", "… Outdated EarlierOperator (10m)"),
    "at rest": (("Progressing", "False", "Settled"), "dim", "  not progressing (Settled, 10m)"),
    "on its way": (("Downloading", "True", "Downloading"), "dim", "  Downloading Downloading (10m)"),
    "a gate": (("ModelReady", "False", "PathNotFound"), "bad", "✘ ModelReady PathNotFound (10m)"),
}  # fmt: skip


@pytest.mark.parametrize(("condition", "style", "text"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_a_condition_reads_as_good_or_bad(condition, style, text):
    """Degraded is good where it is False, and its name alone reads as bad."""
    conditions, *_ = tree(a_service(conditions=[a_condition(*condition)]), [], [], NOW, PLAIN).below
    assert conditions.below == (Branch(text, style),)


DOWNLOADS = {
    "not known": ({}, "download: 0.00 GiB, size not known yet"),
    "begun": ({"bytesDone": 2**29, "bytesPerSecond": 2**20}, "download: 0.50 GiB, size not known yet, 1.0 MiB/s"),
    "known": ({"bytesDone": 0, "bytesTotal": 2**31}, "download: 0.00 of 2.00 GiB (0 %)"),
}


@pytest.mark.parametrize(("download", "text"), DOWNLOADS.values(), ids=DOWNLOADS.keys())
def test_a_download_says_whether_its_size_is_known(download, text):
    assert text in [branch.text for branch in tree(a_service(download=download), [], [], NOW, PLAIN).below]


def test_where_prompts_were_found_is_a_line():
    """In the operator's own whole percent."""
    shares = {"gpuPercent": 12, "hostPercent": 37, "computedPercent": 51}
    service = a_service(conditions=[a_condition("Ready", "True", "Running")], prefixCache=shares)
    assert "├─ prompts: 12 % found on the GPU, 37 % in host memory, 51 % computed\n" in PLAIN.tree(
        tree(service, [], [], NOW, PLAIN)
    )


def test_a_row_has_a_cell_for_each_heading():
    assert len(row(a_service(), NOW)) == len(HEADINGS)
    assert row(a_service(ready="1/1"), NOW) == ("qwen", "Qwen2", "1/1", "-", "-", "-", "-", "4h")


PLANS = {
    "cpu": (PlanStatus(gpus=0, max_model_len=512, dtype="bfloat16"), "plan: CPU, no GPU, context 512, bfloat16"),
    "group": (PlanStatus(gpus=16, gpu_type="L20", tp=8, pp=2, nodes=2, group="Ray", max_model_len=8192,
        quantization="fp8"), "plan: 16 × L20, 2 nodes by Ray, TP 8, PP 2, context 8192, fp8"),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "line"), PLANS.values(), ids=PLANS.keys())
def test_a_plan_in_a_line(plan, line):
    assert headline(plan) == line


def a_card(**gib: str) -> CardBudget:
    return CardBudget(**{f"{name}_gib": text for name, text in gib.items()})


BUDGETS = {
    "fits": (a_card(weights="20", kv_cache="10", overhead="5", required="35", have="40"), "good",
        "[" + "█" * 20 + "▓" * 10 + "▒" * 5 + "░" * 5 + "] weights 20.00 + KV cache 10.00 + engine 5.00 = 35.00 GiB"),
    "too large": (a_card(weights="60", kv_cache="10", overhead="5", required="75", have="40"), "bad",
        "[" + "█" * 40 + "]"),
    "left free": (a_card(weights="14.19", kv_cache="1.75", overhead="2.5", required="20.49", have="44.5"), "good",
        "weights 14.19 + KV cache 1.75 + engine 2.50 + left free 2.05 = 20.49 GiB of 44.50"),
    "unknown card": (a_card(weights="20", kv_cache="1", overhead="2"), "", "each GPU: weights 20.00 + KV cache 1.00"),
    "no figures": (a_card(weights="?"), "", "= 0.00 GiB"),
}  # fmt: skip


@pytest.mark.parametrize(("card", "style", "words"), BUDGETS.values(), ids=BUDGETS.keys())
def test_the_budget_of_a_gpu(card, style, words):
    """The bar's parts are to scale, and its colour says whether it fits."""
    branch = budget(card, PLAIN)
    assert branch.style == style
    assert words in branch.text


def test_everything_of_a_plan_hangs_below_it():
    plan = PlanStatus.model_validate({
        "gpus": 1, "gpuType": "L20", "tp": 1, "maxModelLen": 1, "requiredGib": "9.00", "seedRequiredGib": "10.00",
        "measured": {"weightsGib": "7.10", "kvTokens": 512}, "rollout": "Surge", "because": ["b"],
        "alternatives": ["a"], "advice": ["c"],
    })  # fmt: skip
    texts = [branch.text for branch in plan_branch(plan, PLAIN).below]
    assert texts == [
        "in all: needed 9.00 GiB", "measured on one GPU: weights 7.10 GiB, 512 tokens",
        "pods are replaced by Surge", "because", "instead", "could be better",
    ]  # fmt: skip


def test_warnings_of_a_plan_stand_before_its_reasons():
    """Not among what is dim."""
    plan = PlanStatus(gpus=1, because=["b", "warning: only 2 requests"])
    below = plan_branch(plan, PLAIN).below
    assert [(branch.text, branch.style) for branch in below] == [
        (f"{PLAIN.mark('wait')} warning: only 2 requests", "wait"),
        ("because", ""),
    ]
    assert [branch.text for branch in below[1].below] == ["b"]


AGES = {0: "0s", 59: "59s", 60: "1m", 310: "5m10s", 3600: "1h", 90000: "1d1h", 86400 * 3: "3d"}


@pytest.mark.parametrize(("seconds", "text"), AGES.items(), ids=map(str, AGES))
def test_a_duration_in_two_units(seconds, text):
    assert span(seconds) == text


def test_an_age_that_cannot_be_read_is_a_dash():
    assert (age("", NOW), age("yesterday", NOW), age("2027-01-01T00:00:00Z", NOW)) == ("-", "-", "0s")


def test_a_plain_terminal_gets_plain_signs_and_long_lines_are_wrapped():
    """ASCII where there is no more; colours only where they are asked for."""
    plain = Paint(unicode=False)
    root = Branch("r", "bad", (Branch("a", "", (Branch("b"),)), Branch("word " * 40)))
    lines = plain.tree(root).splitlines()
    assert lines[:4] == ["r", "|- a", "|  `- b", "`- " + ("word " * 22).strip()]
    assert max(map(len, lines)) <= 118
    assert plain.bar([0.5, 0.25], 8) == "[####==..]"
    assert Paint(colour=True).tree(root).startswith("\x1b[31mr\x1b[0m")
    assert plain.table(("A", "BB"), [("xxx", "y")]) == "A    BB\nxxx  y"


def test_settings_stand_in_columns():
    """Name, value and source; a long value is cut, and no settings are no branch."""
    rows = (Setting("seed", 3, "field"), Setting("chat-template", "x" * 60, "flag"))
    (found,) = settings_branch(rows)
    lines = [branch.text for branch in found.below]
    assert [line.split() for line in lines] == [["seed", "3", "field"], ["chat-template", "x" * 47 + "…", "flag"]]
    assert lines[0].index("field") == lines[1].index("flag")
    assert settings_branch(()) == []
