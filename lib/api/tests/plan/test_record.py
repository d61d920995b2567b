"""The plan in a Service's annotation, read back: what cannot be a plan of ours is none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from windlass_api.crd.base import GPUS_MAX
from windlass_api.crd.pods import NODES_MAX
from windlass_api.crd.status import PlanStatus
from windlass_api.crd.v1alpha1 import LLMService
from windlass_api.plan.model import GIB_MAX, NATIVE, Plan
from windlass_api.plan.record import (
    PlanRecord,
    as_recorded,
    digest_of,
    inputs_digest,
    recorded_plan,
    sealed,
    unsealed,
)
from windlass_testbed.cases import every_case

from .test_decide import QWEN_7B

REPOSITORY = Path(__file__).resolve().parents[4]
OLDEST = json.loads((REPOSITORY / "operator/tests/manifests/pods-0.1.0.json").read_text())
PLAN = Plan(
    gpus=2,
    tp=2,
    pp=1,
    nodes=1,
    gpu_type="L20",
    max_model_len=8192,
    dtype="bfloat16",
    quantization=None,
    gpu_memory_utilization_percent=90,
    enforce_eager=False,
    weights_gib=14.5,
    kv_gib=2.0,
    required_gib=20.25,
    seed_required_gib=19.0,
    cpu="2",
    memory="40Gi",
    shm="3Gi",
    node_selector=(("nvidia.com/gpu.product", "NVIDIA-L20"),),
    because=("weights 14.50 GiB",),
    host_parts=(("weights", 14.5), ("engine", 2.0)),
    base="Qwen/Qwen2-7B",
)
RECORD = PlanRecord("0123456789abcdef", PLAN, "Surge", "fedcba9876543210")
SENTENCES = ("x" * 1024,) * 32
FIGURES = dict.fromkeys(("weights_gib", "kv_gib", "required_gib", "seed_required_gib"), float(GIB_MAX))
LARGEST = replace(
    PLAN,
    **dict.fromkeys(("gpus", "tp", "pp", "sp"), GPUS_MAX),
    nodes=NODES_MAX,
    group=NATIVE,
    gpu_type="x" * 63,
    dtype="x" * 32,
    quantization="x" * 64,
    max_model_len=16_777_216,
    **FIGURES,
    **dict.fromkeys(("alternatives", "advice", "because"), SENTENCES),
    host_parts=(("x" * 64, float(GIB_MAX)),) * 32,
)


def forged(**plan: Any) -> str:
    """A record with other values in its plan, under a seal that fits."""
    data = json.loads(RECORD.to_text())
    data.pop("seal")
    return sealed({**data, "plan": {**data["plan"], **plan}})


@pytest.mark.parametrize("plan", [PLAN, LARGEST], ids=["ordinary", "largest"])
def test_a_record_is_read_back_word_for_word(plan):
    record = replace(RECORD, plan=plan)
    assert recorded_plan(record.to_text()) == record
    assert as_recorded(plan) == plan


@pytest.mark.parametrize("name", sorted(OLDEST))
def test_the_first_release_s_record_is_read_back_word_for_word(name):
    """An upgrade replaces no pod, so its plan is believed, and its digest stays."""
    record = recorded_plan(OLDEST[name]["record"])
    assert record is not None
    assert record.to_text() == OLDEST[name]["record"]


def test_what_a_record_may_hold_the_status_may_hold():
    """The bounds are the CRD's: a plan that is believed can be told."""
    PlanStatus.model_validate(LARGEST.to_status())


@every_case(
    "wrong",
    [
        {"nodes": "x"},
        {"nodes": 0},
        {"nodes": NODES_MAX + 1},
        {"nodes": 1.0},
        {"nodes": None},
        {"gpus": True},
        {"gpus": -1},
        {"gpus": GPUS_MAX + 1},
        {"tp": 2**63},
        {"sp": 0},
        {"workers": 65},
        {"weights_gib": 1e308},
        {"weights_gib": -0.5},
        {"weights_gib": "14"},
        {"kv_gib": GIB_MAX + 1},
        {"host_parts": [["weights", 1e308]]},
        {"host_parts": [["weights"]]},
        {"node_selector": {"a": "b"}},
        {"node_selector": [["a", 1]]},
        {"because": [7]},
        {"because": "x"},
        {"advice": ["x" * 1025]},
        {"alternatives": ["x"] * 33},
        {"cpu": 2},
        {"memory": "40Gi; x"},
        {"group": "Neither"},
        {"enforce_eager": 1},
        {"dtype": "x" * 33},
        {"base": "/etc"},
        {"base": "/"},
        {"base": "../x"},
        {"base": "a/../../x"},
        {"unknown": 1},
    ],
)
def test_what_no_plan_holds_is_no_plan(wrong):
    """A seal that fits proves nothing, since an editor of the annotation can make one: types and bounds count."""
    text = forged(**wrong)
    assert unsealed(text) is not None
    assert recorded_plan(text) is None


@pytest.mark.parametrize("number", ["9" * 400, "NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ['"weights_gib":14.5', '"nodes":1'])
def test_a_number_that_only_python_reads_is_no_plan(field, number):
    """Written as text, since no encoder of ours writes it."""
    body, _, _ = RECORD.to_text().replace(field, f"{field.partition(':')[0]}:{number}").partition(',"seal"')
    text = f'{body},"seal":"{digest_of(json.loads(body + "}"))}"}}'
    assert unsealed(text) is not None
    assert recorded_plan(text) is None


@every_case(
    "text",
    [
        *("", "x", "null", "7", "[]", "{}", '{"seal": null}', "[" * 100_000, '{"a":' * 480 + "{}" + "}" * 480),
        *(sealed({}), sealed({"plan": []}), sealed({"digest": "d", "plan": None}), sealed({"digest": 7, "plan": {}})),
    ],
)
def test_another_text_is_no_plan(text):
    assert recorded_plan(text) is None


def test_an_edit_breaks_the_seal():
    assert recorded_plan(RECORD.to_text().replace('"tp":2', '"tp":1')) is None


def test_a_figure_that_no_plan_can_have_is_named():
    with pytest.raises(msgspec.ValidationError, match="weights_gib"):
        as_recorded(replace(PLAN, weights_gib=float("inf")))


def test_every_number_text_and_list_of_a_record_has_a_bound():
    """A field without one would be believed whatever it holds."""
    rows = (*inspect.type_info(Plan).fields, *inspect.type_info(PlanRecord).fields)
    assert [row.name for row in rows if row.name != "plan" and not _bounded(row.type)] == []


def _bounded(kind: Any) -> bool:
    match kind:
        case inspect.UnionType(types=kinds) | inspect.TupleType(item_types=kinds):
            return all(map(_bounded, kinds))
        case inspect.VarTupleType(item_type=item):
            return kind.max_length is not None and _bounded(item)
        case inspect.IntType() | inspect.FloatType():
            return kind.ge is not None and kind.le is not None
        case inspect.StrType():
            return kind.max_length is not None or kind.pattern is not None
        case _:
            return isinstance(kind, inspect.BoolType | inspect.NoneType)


def digest_with(**piece):
    model = {"id": "m", "source": {"pvc": {"claimName": "c"}}}
    spec = {"model": model, "podTemplate": {"labels": {"a": "b"}, "spec": piece}}
    return inputs_digest(LLMService.model_validate({"metadata": {"name": "m"}, "spec": spec}), QWEN_7B)


def test_what_a_pod_template_says_of_nodes_is_planned_from_and_nothing_else_of_it():
    """A template without a word of nodes has the digest of older operators' records."""
    plain = digest_with()
    near = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert digest_with(hostname="x", affinity=near) == plain
    term = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pieces = (
        {"nodeSelector": {"pool": "a"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"affinity": {"nodeAffinity": required}},
    )
    assert len({plain, *(digest_with(**piece) for piece in pieces)}) == 4
