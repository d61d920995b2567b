"""docs/reference/findings.md: valid specs that failed in the audit of 2026-11-23, and the test that holds each mend.

WINDLASS_GOLDEN=write rewrites the page. The cases that no other test holds in the audit's own words stand here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass.errors import WindlassError
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Refusal
from windlass_operator.status import reasons
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement import gpus

sys.path.insert(0, str(Path(__file__).parent))

from test_plans_agree import CONFIGS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/findings.md"
HEAD = """\
# Valid specs that failed

<!-- Printed by WINDLASS_GOLDEN=write pytest tests/contract/test_findings_page.py -->

An audit of 2026-11-23 found specs and commands that were taken and then failed, wasted GPUs or said too little. Each
row is one finding, what was observed when its case was run on the audit's commit, dde1513, what happens today, and the
tests that would fail if it came back. There the cases ran through that commit's own commands, planner and charts: most
of today's tests ask for modules that it did not have. No engine and no cluster was started for them.

| finding | on dde1513 | today | tests |
| --- | --- | --- | --- |
"""
METHODS = "tests/contract/test_methods.py"
MISTAKES = "tests/contract/test_mistakes.py"
HERE = "tests/contract/test_findings_page.py"
CARDS = "sizing/tests/test_gpus_and_advice.py"
VALID = "tests/kind/test_e2e_valid_specs.py"


@dataclass(frozen=True)
class Row:
    """One finding; `before` is what its case did on dde1513, and each test is a file and a function."""

    finding: str
    before: str
    today: str
    tests: tuple[str, ...]


def row(finding: str, before: str, today: str, *tests: str) -> Row:
    """A row of the page."""
    return Row(finding, before, today, tests)


MISTAKE = f"{MISTAKES}::test_a_mistake_is_one_sentence_and_a_code_of_the_table"
ROWS = (
    row(
        "Three tables of methods contradict each other",
        "1,062 cells of 4 models planned by the operator; the server refused 184 of them",
        "One table in `sizing/`; operator and server agree in every cell",
        f"{METHODS}::test_every_cell_agrees",
    ),
    row(
        "Gemma-2-27B with `auto` on an L20: one GPU planned, unquantized weights served",
        "One GPU planned with `auto`; the server resolved the planned flags to no method",
        "`auto` comes to no method, and the plan has two GPUs",
        f"{METHODS}::test_gemma_2_27b_with_auto_on_an_l20",
    ),
    row(
        "`ifq` with bfloat16, on Gemma 2 or a V100, `ifq_nf4` on Gemma 2: planned, then refused by the server",
        "All four planned; the server refused each",
        "Refused by both in the same words",
        f"{METHODS}::test_every_cell_agrees",
        "api/tests/plan/test_refusals.py::test_a_refusal_says_what_where_and_what_to_do",
    ),
    row(
        "The remedy advises `ifq` for compute capability 7.0",
        "“set spec.engine.quantization to ifq (7.0 and newer), auto or none”",
        "The least capability comes from the method's row: 7.5",
        "api/tests/plan/test_refusals.py::test_a_refusal_says_what_where_and_what_to_do",
    ),
    row(
        "gpt-oss-120b fits on 4 × V100, DeepSeek-R1 in FP8 on 32 × V100",
        "The operator planned 4 and 24 V100 in float16; `windlass plan` said both fit",
        "Both planners refuse: the engine has no code for 7.0",
        f"{HERE}::test_no_v100_is_planned",
    ),
    row(
        "mxfp4 in float16 or below 8.0 is planned",
        "Planned on 8 × T4; an H100 with float16 planned too, and `windlass plan` said that it fits",
        "Refused by both, with the number format or the card",
        f"{HERE}::test_mxfp4_is_planned_in_bfloat16_from_8_0",
        "sizing/tests/test_engine_verdicts.py::test_every_verdict_is_the_engine_s",
    ),
    row(
        "An unknown `quant_method` or architecture is found when the engine has crashed",
        "Both planned on one L20; `windlass plan` ended with 0",
        "The plan refuses, and names the nearest that the engine has",
        "sizing/tests/test_decision.py::test_an_architecture_that_the_engine_does_not_have_is_refused",
        f"{HERE}::test_an_unknown_checkpoint_names_the_nearest",
    ),
    row(
        "`resources.gpus: 0` takes the CUDA image, `family: deepspeed` the CPU image",
        "`windlass/server` with and without GPUs, `windlass/deepspeed` with and without",
        "Family and hardware choose one of four images",
        "tests/contract/test_spec_mutations.py::test_family_and_hardware_choose_the_image",
        "api/tests/plan/test_serving_image.py::test_the_digest_holds_until_the_spec_names_a_version_or_a_repository",
    ),
    row(
        "The label of a MIG slice matches the whole card",
        "`…-MIG-1g.10gb` was found as the A100-80G of 80 GiB",
        "A slice is a small card of its own",
        f"{CARDS}::test_a_slice_is_a_small_card_of_its_own",
        f"{CARDS}::test_no_other_name_matches_a_slice",
    ),
    row(
        "A10G, GB200 and B300 are unknown",
        "None was found, nor GB300 and the RTX PRO 6000; L40 and H20 were",
        "They have rows",
        f"{HERE}::test_new_cards_are_known",
        f"{CARDS}::test_a_node_label_leads_to_its_card",
    ),
    row(
        "`--gpu A100` and `--gpu V100` are not known",
        "Exit code 2: “is not known”",
        "A family is taken wherever a card is named",
        f"{CARDS}::test_a_name_means_each_card_of_its_family",
        "server/tests/cli/test_plan.py::test_a_card_is_named_in_every_way",
    ),
    row(
        "A broken chat template becomes Running and Ready",
        "The start was decided and its flags written, without a word on the template; its pod was not run again",
        "`ChatTemplateBroken` with file and line, never Ready",
        "server/tests/launch/test_chat_templates.py::test_a_template_that_cannot_render_ends_the_start",
        f"{VALID}::test_a_broken_template_is_refused_with_its_line",
    ),
    row(
        "Tool calls get 400 unless the name is in table T",
        "A start from each of 56 checkpoints, and from the demo's, had no tool parser. No engine was asked",
        "Parsers are found from the checkpoint's marks",
        "server/tests/launch/test_parsers.py::test_marks_name_the_parsers",
        f"{VALID}::test_a_tool_is_called_without_a_flag",
    ),
    row(
        "Misspelled flags and stray words pass",
        "With `--explain` exit code 0; without, the words were handed to the engine",
        "Refused with the nearest real flag",
        MISTAKE,
    ),
    row(
        "`run --port 99999` ends with 0",
        "Exit code 0",
        "Exit code 2",
        MISTAKE,
    ),
    row(
        "`windlass-license serve --port 99999` listens elsewhere",
        "“running on http://127.0.0.1:99999”, listening on 34463",
        "Exit code 2, nothing listens",
        MISTAKE,
        "license_server/tests/test_cli.py::test_a_mistake_is_one_sentence_and_exit_code_2",
    ),
    row(
        "The remedy of `HubUntrusted` cannot be followed",
        "It said “give the operator the CA bundle … in SSL_CERT_FILE”; the chart refused `download.caBundle`",
        "The chart's `download.caBundle` reaches the Job, and the remedy names it",
        "tests/contract/test_operator_chart.py::test_what_other_charts_call_so_has_its_effect",
        f"{HERE}::test_the_remedy_of_an_untrusted_hub_is_a_value_of_the_chart",
    ),
    row(
        '"[Errno 2] No such file or directory", "Input should be a valid integer", "unsupported protocol"',
        "29 of the 52 lines were not so; all three texts were printed",
        "A sentence says what, where and what to do; no library's words",
        MISTAKE,
        "server/tests/cli/test_mistakes.py::test_a_server_without_a_scheme_is_asked_by_http",
    ),
    row(
        "`doctor` speaks of `source.path` on a machine without a cluster",
        '“source.path "nope" is not in this machine; / has: data, model”',
        "It says that the directory is not there, and how to name one",
        "server/tests/doctor/test_gather.py::test_a_machine_with_a_gpu",
    ),
    row(
        "`plan /nope` ends with 2, `run` with 3",
        "2 and 3",
        "Both end with 3",
        f"{HERE}::test_plan_and_run_end_alike_without_a_model",
        "server/tests/cli/test_plan.py::test_a_model_that_is_not_there_ends_as_run_does",
    ),
    row(
        "`plan` shows two totals and no number of requests",
        "“quick formula 0.01 GiB in all” beside “needed 1.47 GiB in all”, no number of requests",
        "One total, the seeds' formula named as what it is, requests at once",
        "sizing/tests/test_choice.py::test_a_plan_says_one_total_and_how_many_requests",
        "server/tests/cli/test_plan.py::test_other_forms",
    ),
    row(
        "A chart value misspelled below the top level passes",
        "A key that is none was taken below `resources` by both, below `global` by the license server's",
        "Refused by both charts' schemas",
        "tests/contract/test_operator_chart.py::test_no_value_below_the_top_takes_any_name",
        "tests/contract/test_license_chart.py::test_refused_values",
    ),
)


def page() -> str:
    """The whole page."""
    lines = (
        f"| {one.finding} | {one.before} | {one.today} | {'<br>'.join(f'`{test}`' for test in one.tests)} |\n"
        for one in ROWS
    )
    return HEAD + "".join(lines)


def test_page_is_current() -> None:
    """The rows are what is committed."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert page() == PAGE.read_text()


@pytest.mark.parametrize("test", sorted({test for one in ROWS for test in one.tests}))
def test_a_named_test_is_there(test: str) -> None:
    """A test that is renamed takes its row along."""
    path, name = test.split("::")
    assert re.search(rf"^ *(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def refusal(config: dict[str, object], card: str, nodes: int, per_node: int, **engine: object) -> str:
    """Why the operator does not plan it on so many nodes; empty when it does."""
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "deployment": {"mode": "Auto"}}
    inventory = Inventory(
        tuple(NodeGpus(f"n{at}", card, gpus.GPUS[card].real_gib, per_node, per_node) for at in range(nodes))
    )
    plan = decide(LLMServiceSpec.model_validate({**spec, "engine": engine}), from_config(config), inventory)
    return plan.sentence() if isinstance(plan, Refusal) else ""


def plan_command(folder: Path, config: dict[str, object], *words: str) -> str:
    """Why `windlass plan` does not plan it; empty when it does."""
    (folder / "config.json").write_text(json.dumps(config))
    result = CliRunner().invoke(app, ["plan", str(folder), "-o", "json", *words])
    if isinstance(result.exception, WindlassError):
        return str(result.exception)
    answer = json.loads(result.stdout)
    return "" if answer["fits"] else str(answer["error"])


@pytest.mark.parametrize(("model", "nodes", "per_node"), [("gpt-oss-120b", 1, 4), ("DeepSeek-R1", 4, 8)])
def test_no_v100_is_planned(model: str, nodes: int, per_node: int, tmp_path: Path) -> None:
    """The audit's two plans that could not start."""
    words = ("--gpu", "V100-32G", "--nodes", str(nodes), "--gpus-available", str(per_node))
    for said in (
        refusal(CONFIGS[model], "V100-32G", nodes, per_node),
        plan_command(tmp_path, CONFIGS[model], *words),
    ):
        assert "V100-32G has 7.0" in said
        assert "7.5" in said


def test_mxfp4_is_planned_in_bfloat16_from_8_0(tmp_path: Path) -> None:
    """A T4 and float16 are refused; an H100 is planned."""
    model = CONFIGS["gpt-oss-120b"]
    assert "needs compute capability 8.0" in refusal(model, "T4", 4, 8)
    assert "computes in bfloat16, not float16" in refusal(model, "H100", 1, 8, dtype="float16")
    assert refusal(model, "H100", 1, 8) == ""
    assert "computes in bfloat16, not float16" in plan_command(tmp_path, model, "--gpu", "H100", "--dtype", "float16")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quantization_config": {"quant_method": "awqq", "bits": 4}}, "the nearest that it reads is awq"),
        ({"architectures": ["Qwen33ForCausalLM"]}, "the nearest that it has is Qwen3ForCausalLM"),
    ],
    ids=["quant_method", "architecture"],
)
def test_an_unknown_checkpoint_names_the_nearest(change: dict[str, object], words: str, tmp_path: Path) -> None:
    """By the operator before any pod, and by the command."""
    config = {**CONFIGS["Qwen3-8B"], **change}
    assert words in refusal(config, "L20", 1, 8)
    assert words in plan_command(tmp_path, config, "--gpu", "L20")


@pytest.mark.parametrize("card", ["A10G", "GB200", "B300", "GB300", "L40", "H20", "RTX-PRO-6000"])
def test_new_cards_are_known(card: str) -> None:
    """Each has memory and a compute capability."""
    found = gpus.find(card)
    assert found is not None
    assert found.real_gib > 20
    assert found.capability >= (8, 6)


def test_the_remedy_of_an_untrusted_hub_is_a_value_of_the_chart() -> None:
    """The value stands in the chart's schema."""
    assert "download.caBundle" in reasons.TABLE["HubUntrusted"].remedy
    schema = json.loads((ROOT / "charts/windlass/values.schema.json").read_text())
    assert "caBundle" in schema["properties"]["download"]["properties"]


@pytest.mark.parametrize("words", [("plan", "/nope"), ("run", "/nope", "--explain")], ids=["plan", "run"])
def test_plan_and_run_end_alike_without_a_model(words: tuple[str, ...]) -> None:
    """Exit code 3 is a model that cannot be served."""
    assert getattr(CliRunner().invoke(app, list(words)).exception, "exit_code", None) == 3
