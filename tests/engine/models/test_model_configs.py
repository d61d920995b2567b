"""Sixty models on twelve cards: our plan's verdict, number format and length are what the engine's own classes say.

The models and cards are those of `tests/contract/test_plans_agree.py`, where operator and `windlass plan` agree. Here
the engine reads each configuration as its `ModelConfig`; docs/reference/model-configs.md is the result.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_api.plan.quantize import number_format
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement import gpus
from windlass_sizing.quantization.engine import ENGINE

sys.path.insert(0, str(Path(__file__).parents[2] / "contract"))

from test_plans_agree import CARDS, CONFIGS, MODELS

PAGE = Path(__file__).parents[3] / "docs/reference/model-configs.md"
LARGE_GIB = 20000.0  # of a card, so that memory refuses nothing
SPEC = LLMServiceSpec.model_validate(
    {
        "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
        # An image of one's own: which cards our images have kernels for is another matter.
        "image": {"repository": "mine/server"},
        "resources": {"gpus": 1},
    }
)
JUDGED = ("UnsupportedQuantization", "UnsupportedDtype", "ArchitectureNotServed", "GpuWithoutKernels")
NAMED = {"deepseek_v4_fp8": "fp8", "gpt_oss_mxfp4": "mxfp4"}
"""The engine's reader for one family, and the checkpoint's own word."""
HEAD = """\
# Configurations as the engine reads them

<!-- Printed from the engine's own classes: WINDLASS_GOLDEN=write pytest tests/engine/models/test_model_configs.py -->

{models} configurations of 2025 and 2026 (two of December 2024) are read by vLLM's own `ModelConfig` in the CPU serving
image, without a network and without weights. {created} of them can be created there. For each of {cards} cards our plan
says with which number format the model runs, or refuses it; the engine's classes say the same. {cells} cells were
compared, {differ} differ. Memory is left out: the formula has its own [page](sizing.md).

*Length* is the longest context of the model. *Refused on* lists the cards that plan and engine both refuse.

| model | class in the engine | checkpoint | length | refused on |
| --- | --- | --- | --- | --- |
"""
TAIL = """
## Not created here

The plan for these is not read against the engine. Each needs files beside `config.json`.

| model | what the engine says |
| --- | --- |
"""


def facts(name: str, architectures: list[str]) -> ModelFacts:
    """As the inspect Job finds a directory of a saved checkpoint."""
    return replace(from_config(CONFIGS[name] | {"architectures": architectures}), has_smoothquant_file=False)


@cache
def asked() -> dict[str, list[str]]:
    """The number formats in which our plan serves each model, in the order of the cards."""
    chosen = {
        name: number_format(SPEC.engine.dtype, SPEC.engine.quantization, from_config(CONFIGS[name]), on_cpu=False)[0]
        for name in MODELS
    }
    return {name: [chosen[name]] for name in MODELS}


@pytest.fixture(scope="module")
def found(engine: Any) -> dict[str, Any]:
    """What the engine printed."""
    return engine.result("/repo/tests/engine/models/print_model_configs.py", json.dumps(asked()), timeout_s=400)


def is_planned(of: ModelFacts, card: str) -> bool:
    """By the operator; a refusal for any other reason than the engine's limits would be a mistake here."""
    plan = decide(SPEC, of, Inventory((NodeGpus("n", card, LARGE_GIB, 1, 1),)))
    assert isinstance(plan, Plan) or plan.reason in JUDGED, plan
    return isinstance(plan, Plan)


def capability(card: str) -> int:
    major, minor = gpus.GPUS[card].capability
    return 10 * major + minor


def created(found: dict[str, Any]) -> dict[str, tuple[ModelFacts, dict[str, Any]]]:
    """The facts that we read, and the engine's reading, of each model that the engine could read or refuse."""
    pairs = {
        name: (facts(name, one["architectures"]), next(iter(one["readings"].values()))) for name, one in found.items()
    }
    return {name: pair for name, pair in pairs.items() if "notCreated" not in pair[1]}


def runs(reading: dict[str, Any], card: str) -> bool:
    """By the engine's classes, and by what its wheels hold code for, which the classes do not know."""
    return ENGINE.has_code(gpus.GPUS[card].capability) and capability(card) in reading.get("cards", ())


def test_verdicts_on_every_card_are_the_engine_s(found: dict[str, Any]) -> None:
    """Taken by the plan and by the engine, or by neither."""
    pairs = created(found)
    differ = [
        (name, card)
        for name, (ours, theirs) in pairs.items()
        for card in CARDS
        if is_planned(ours, card) != runs(theirs, card)
    ]
    assert differ == []
    assert len(pairs) >= 56


def test_lengths_are_the_engine_s(found: dict[str, Any]) -> None:
    """What the plan takes as the model's longest context the engine takes as well."""
    lengths = {name: (ours.max_model_len, theirs.get("maxModelLen")) for name, (ours, theirs) in created(found).items()}
    assert {name: pair for name, pair in lengths.items() if pair[0] != pair[1]} == {}


def test_checkpoints_are_quantized_by_what_the_engine_says(found: dict[str, Any]) -> None:
    """The engine's name for its reader, as the checkpoint's own word."""
    pairs = {
        name: (ours.quantization, NAMED.get(theirs["quantization"], theirs["quantization"]))
        for name, (ours, theirs) in created(found).items()
    }
    assert {name: pair for name, pair in pairs.items() if pair[0] != pair[1]} == {}


def test_number_formats_are_taken(found: dict[str, Any]) -> None:
    """The engine keeps the format that our plan asks for."""
    formats = {name: (asked()[name], [one["dtype"]]) for name, (_, one) in created(found).items()}
    assert {name: pair for name, pair in formats.items() if pair[0] != pair[1]} == {}


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    pairs = created(found)
    cells = len(pairs) * len(CARDS)
    head = HEAD.format(models=len(found), created=len(pairs), cards=len(CARDS), cells=cells, differ=0)
    rows = [
        f"| {name} | `{theirs['architecture']}` | {theirs['quantization'] or 'plain'} | {theirs['maxModelLen']} "
        f"| {', '.join(card for card in CARDS if not runs(theirs, card)) or '–'} |\n"
        for name, (_, theirs) in pairs.items()
    ]
    missing = [f"| {name} | {_why(one)} |\n" for name, one in found.items() if name not in pairs]
    return "".join((head, *rows, TAIL, *missing))


def _why(one: dict[str, Any]) -> str:
    said = next(iter(one["readings"].values()))["notCreated"]
    return "its own class, as code" if "recognize" in said else "its processor's files"


def test_page_is_current(found: dict[str, Any]) -> None:
    """What the engine says now is what is committed."""
    text = page(found)
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(text)
    assert text == PAGE.read_text()
