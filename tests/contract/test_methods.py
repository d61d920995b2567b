"""One decision on quantization: operator and server give the same verdict, method and price in every cell.

A cell is a method, a card, a number format and a model. The operator plans it; the server gets the planned flags, or,
where the operator refuses, the asked ones.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from windlass.doctor import fits
from windlass.errors import UsageError
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.engine_rules import QUANTIZATION_RULES
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan, Refusal
from windlass_api.plan.quantize import number_format
from windlass_deepspeed import flags as deepspeed_flags
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement import gpus
from windlass_sizing.placement.formula import cpu_demand, demand
from windlass_sizing.quantization.engine import ENGINE
from windlass_sizing.quantization.methods import ACCEPTED, METHODS, NAMES, READERS, Kind
from windlass_testbed.cases import every_case

DATA = Path(__file__).parents[2] / "lib/sizing/tests/data/models.json"
CONFIGS: dict[str, dict[str, Any]] = {row["name"]: row["config"] for row in json.loads(DATA.read_text())}
PLAIN = "Llama-3.2-1B"
LARGE_GIB = 20000.0  # of a card, so that memory refuses nothing
CPU = "CPU"
UNKNOWN = "Custom-X"
# One card of each compute capability.
CARDS = (*{card.capability: card.name for card in gpus.GPUS.values()}.values(), UNKNOWN, CPU)
GIVEN = ("auto", "float16", "bfloat16", "float32")
DTYPES = (None, *GIVEN)
ADMITTED = set(re.findall(r"'([^']+)'", QUANTIZATION_RULES[0].rule))  # by the expression in the CRD
ASKED = (None, *ACCEPTED, *(name for name, row in METHODS.items() if row.kind is Kind.REFUSED), "int3")
JUDGED = ("UnsupportedQuantization", "UnsupportedDtype", "ArchitectureNotServed", "GpuWithoutKernels")


def _quantized(by: str, **settings: object) -> ModelFacts:
    config = {**CONFIGS[PLAIN], "quantization_config": {"quant_method": by, **settings}}
    return replace(from_config(config), has_smoothquant_file=False)


@cache
def models() -> dict[str, ModelFacts]:
    """One model of each kind that a method asks about."""
    named = ("gemma-2-2b", "Qwen3-30B-A3B", "gpt-oss-120b", "DeepSeek-V4-Flash", "Molmo-7B-D-NF4")
    return {
        "plain": replace(from_config(CONFIGS[PLAIN]), has_smoothquant_file=False),
        "with smoothquant's file": replace(from_config(CONFIGS[PLAIN]), has_smoothquant_file=True),
        "smoothquant's file alone": replace(
            from_config(CONFIGS[PLAIN]), quantization="smoothquant", quantization_bits=8, has_smoothquant_file=True
        ),
        **{name: replace(from_config(CONFIGS[name]), has_smoothquant_file=False) for name in named},
        **{by: _quantized(by, bits=4) for by in (*READERS, "fbgemm_fp8", "nobody")},
    }


@cache
def _spec(method: str | None, card: str, dtype: str | None, family: str = "vllm", **more: bool) -> LLMServiceSpec:
    asked = {"quantization": method, "dtype": dtype, **more}
    return LLMServiceSpec.model_validate(
        {
            "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
            # An image of one's own: which cards our images have kernels for is another matter.
            "image": {"repository": "mine/server", "family": family},
            "engine": {key: value for key, value in asked.items() if value},
            "resources": {"gpus": 0 if card == CPU else 1},
        }
    )


def _planned(spec: LLMServiceSpec, card: str, facts: ModelFacts) -> Plan | Refusal:
    return decide(spec, facts, Inventory((NodeGpus("n", card, LARGE_GIB, 1, 1),)))


def _files(facts: ModelFacts) -> ModelFiles:
    by_config = None if facts.quantization == "smoothquant" else facts.quantization
    return ModelFiles(
        "/data/model", facts.model_type, facts.max_model_len, by_config, facts.num_attention_heads,
        has_experts=bool(facts.num_experts), has_smoothquant_file=bool(facts.has_smoothquant_file),
        architecture=facts.architecture, brings_code=facts.brings_code,
        has_plain_weights=facts.quantization != "smoothquant",
    )  # fmt: skip


def _machine(card: str) -> Machine:
    return Machine("cpu") if card == CPU else Machine("cuda", (Gpu("GPU-0", card),))


def _difference(method: str | None, card: str, dtype: str | None, facts: ModelFacts) -> str:
    """How operator and server differ in this cell; empty when they do not."""
    spec = _spec(method, card, dtype)
    plan = _planned(spec, card, facts)
    if isinstance(plan, Refusal):
        return _taken(spec, card, facts) if plan.reason in JUDGED else f"refused for {plan.reason}"
    try:
        launch = resolve(server_args(spec, plan), {}, _files(facts), _machine(card))
    except UsageError as error:
        return f"planned as {plan.quantization} in {plan.dtype}, and the server says: {error}"
    served = launch.value("quantization"), launch.value("dtype")
    if (plan.quantization or "none", plan.dtype) != (served[0] or "none", served[1]):
        return f"planned as {plan.quantization} in {plan.dtype}, served as {served}"
    price = (cpu_demand if card == CPU else demand)(facts, fits.serving(launch, facts))
    return (
        "" if price.weights_gib == plan.weights_gib else f"{plan.weights_gib} GiB planned, {price.weights_gib} served"
    )


def _taken(spec: LLMServiceSpec, card: str, facts: ModelFacts) -> str:
    """What the operator refuses, and the server takes."""
    dtype, _ = number_format(spec.engine.dtype, spec.engine.quantization, facts, on_cpu=card == CPU)
    words = ["--model", "/data/model", "--dtype", dtype]
    words += ["--quantization", spec.engine.quantization] if spec.engine.quantization else []
    try:
        resolve(tuple(words), {}, _files(facts), _machine(card))
    except UsageError:
        return ""
    return "refused by the operator, taken by the server"


@pytest.mark.parametrize("model", models())
def test_every_cell_agrees(model: str) -> None:
    """The same verdict, the same method and number format in effect, the same price."""
    facts = models()[model]
    cells = {cell: _difference(*cell, facts) for cell in itertools.product(ASKED, CARDS, DTYPES)}
    assert {cell: words for cell, words in cells.items() if words} == {}
    assert len(cells) == len(ASKED) * len(CARDS) * len(DTYPES)


@pytest.mark.parametrize("model", ["gemma-2-2b", "gpt-oss-120b", "Molmo-7B-D-NF4", "nobody"])
def test_what_is_set_aside_is_so_on_both_sides(model: str) -> None:
    """With ignoreEngineLimits the operator plans, and the server starts with a warning, in the same cells."""
    facts = models()[model]
    for card, dtype in itertools.product(CARDS, DTYPES):
        spec = _spec(None, card, dtype, ignoreEngineLimits=True)
        plan = _planned(spec, card, facts)
        assert isinstance(plan, Plan)
        launch = resolve(server_args(spec, plan), {}, _files(facts), _machine(card))
        said = [line for line in plan.because if "ignoreEngineLimits sets aside" in line]
        told = [line for line in launch.warnings if "--ignore-engine-limits sets a limit" in line]
        assert len(said) == len(told)


REAL = {name: config for name, config in CONFIGS.items() if config.get("architectures")}


@pytest.mark.parametrize("card", CARDS)  # not one item, which would take minutes
def test_every_real_model_agrees(card: str) -> None:
    """Our methods on every real configuration that sizing is tested with, without a number format and with one.

    The formats take turns over models and methods: `test_every_cell_agrees` has every one for each kind of model.
    """
    differ = {}
    for turn, (name, config) in enumerate(REAL.items()):
        facts = replace(from_config(config), has_smoothquant_file=False)
        for more, method in enumerate((None, *NAMES)):
            for dtype in (None, GIVEN[(turn + more) % len(GIVEN)]):
                if words := _difference(method, card, dtype, facts):
                    differ[name, method, dtype] = words
    assert differ == {}


@every_case("method", ACCEPTED)
def test_an_accepted_method_is_real(method: str) -> None:
    """Admission takes the name, and some card serves it for some model."""
    assert method in ADMITTED
    plans = (_planned(_spec(method, card, None), card, facts) for facts in models().values() for card in CARDS)
    assert any(isinstance(plan, Plan) for plan in plans)


@every_case("method", [name for name in ASKED if name and name not in ACCEPTED])
def test_any_other_name_is_refused_everywhere(method: str) -> None:
    """At admission, by the plan on every card for every model, and so, by the cells above, by the server."""
    assert method not in ADMITTED
    plans = [_planned(_spec(method, card, None), card, facts) for facts in models().values() for card in CARDS]
    assert {plan.reason for plan in plans if isinstance(plan, Refusal)} == {"UnsupportedQuantization"}
    assert not any(isinstance(plan, Plan) for plan in plans)


@every_case("method", ASKED)
def test_deepspeed_takes_no_method(method: str | None) -> None:
    """Neither the plan nor the server; without one both serve."""
    plan = _planned(_spec(method, "L20", None, "deepspeed"), "L20", models()["plain"])
    assert isinstance(plan, Plan) == (method is None)
    if method:
        with pytest.raises(UsageError):
            deepspeed_flags.resolve(("--quantization", method), {})


def test_every_name_of_the_engine_has_a_row() -> None:
    """A method that a new engine brings is classified before it is accepted."""
    assert set(ENGINE.methods) <= set(METHODS)
    assert {name for name, row in METHODS.items() if row.kind in (Kind.ONLINE, Kind.FORMAT)} <= set(ENGINE.methods)
    assert not {name for name in ENGINE.deprecated if METHODS[name].kind is not Kind.REFUSED}


GEMMA_27B = {**CONFIGS["gemma-2-2b"], "hidden_size": 4608, "num_hidden_layers": 46, "intermediate_size": 36864,
             "num_attention_heads": 32, "num_key_value_heads": 16}  # fmt: skip


def test_gemma_2_27b_with_auto_on_an_l20() -> None:
    """auto comes to no method, since Gemma 2 overflows in float16: the plan prices unquantized weights."""
    spec = LLMServiceSpec.model_validate(
        {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "engine": {"quantization": "auto"}}
    )
    plan = decide(spec, from_config(GEMMA_27B), Inventory((NodeGpus("n", "NVIDIA-L20", 44.99, 8, 8),)))
    assert isinstance(plan, Plan)
    assert (plan.gpus, plan.quantization, plan.dtype) == (2, "none", "bfloat16")
    assert "auto: ifq runs with float16 only, in which gemma2 overflows" in plan.because
