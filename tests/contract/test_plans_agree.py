"""Sixty models of 2025 and 2026 (two of December 2024) on twelve cards: operator and `windlass plan` answer alike.

The operator plans on three nodes of eight cards and may spread the model over them, `windlass plan` on as many.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass.errors import WindlassError
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide as operators
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.model.facts import ModelFacts, from_config
from windlass_sizing.placement import gpus

DATA = Path(__file__).parents[2] / "lib/sizing/tests/data/models.json"
CONFIGS: dict[str, dict[str, Any]] = {row["name"]: row["config"] for row in json.loads(DATA.read_text())}
DEFAULTS = (
    "apertus", "arcee", "ernie4_5_moe", "ernie4_5_vl_moe", "exaone4", "falcon_h1", "gemma3n_text", "glm4", "glm4_moe",
    "glm4v", "granitemoehybrid", "helium", "hy_v3", "internvl", "kimi_k25", "kimi_linear", "lfm2", "minimax",
    "minimax_m2", "mimo_v2_flash", "mistral3", "qwen3_next", "qwen3_omni_moe_thinker", "seed_oss", "smollm3", "voxtral",
)  # fmt: skip
PUBLISHED = (
    "DeepSeek-R1", "DeepSeek-V3.1-NVFP4", "DeepSeek-V3.2", "DeepSeek-V4-Flash", "Devstral-Small-2507",
    "Gemma-4-31B-IT-NVFP4", "Llama-4-Scout-17B-16E", "MiMo-V2-Flash", "MiniCPM-V-4_6-AWQ", "MiniCPM4-8B",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "Olmo-3.1-32B-Instruct", "Qwen2.5-VL-7B-Instruct", "Qwen3-0.6B",
    "Qwen3-1.7B", "Qwen3-235B-A22B-FP8", "Qwen3-235B-A22B-NVFP4", "Qwen3-30B-A3B", "Qwen3-30B-A3B-FP8", "Qwen3-4B",
    "Qwen3-8B", "Qwen3-Coder-480B-A35B-Instruct", "Qwen3-VL-30B-A3B-Instruct", "Qwen3-VL-8B-Instruct", "Qwen3.5-0.8B",
    "Qwen3.5-27B", "Qwen3.5-397B-A17B-NVFP4", "cogito-v1-preview-qwen-14B", "gemma-3-1b", "gemma-4-26B-A4B",
    "gemma-4-E2B", "gpt-oss-120b", "DeepSeek-V3", "EXAONE-3.5-7.8B",
)  # fmt: skip
MODELS = (*PUBLISHED, *(f"{name} (defaults)" for name in DEFAULTS))
CARDS = ("V100-32G", "T4", "A10", "A100-40G", "A100-80G", "L4", "L20", "L40S", "H100", "H20", "H200", "B200")
NODES, PER_NODE = 3, 8
METHODS = ("none", "auto")
SAME = ("gpus", "tp", "pp", "nodes", "maxModelLen", "dtype", "quantization", "weightsGib", "kvCacheGib", "requiredGib")


@cache
def facts(name: str) -> ModelFacts:
    """As the inspect Job finds a directory that has no file of smoothquant's."""
    return replace(from_config(CONFIGS[name]), has_smoothquant_file=False)


def by_operator(name: str, card: str, method: str) -> dict[str, Any] | str:
    """The plan's answer, or why there is none."""
    row = gpus.GPUS[card]
    nodes = tuple(NodeGpus(f"node-{n}", card, row.real_gib, PER_NODE, PER_NODE) for n in range(NODES))
    spec = {
        "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
        "engine": {"quantization": method},
        "deployment": {"mode": "Auto"},
    }
    plan = operators(LLMServiceSpec.model_validate(spec), facts(name), Inventory(nodes))
    if not isinstance(plan, Plan):
        return plan.reason
    return {
        "gpus": plan.gpus, "tp": plan.tp, "pp": plan.pp, "nodes": plan.nodes, "maxModelLen": plan.max_model_len,
        "dtype": plan.dtype, "quantization": _named(plan.quantization, facts(name)),
        "weightsGib": round(plan.weights_gib, 2), "kvCacheGib": round(plan.kv_gib, 2),
        "requiredGib": round(plan.required_gib, 2),
    }  # fmt: skip


def _named(method: str | None, of: ModelFacts) -> str:
    """The method in effect, or the checkpoint's own, as the command names it."""
    return method if method and method != "none" else of.quantization or "none"


def by_command(model: Path, card: str, method: str) -> dict[str, Any] | str:
    """What `windlass plan` prints, or why it prints nothing."""
    words = [str(model), "--gpu", card, "-q", method, "--nodes", str(NODES), "-o", "json"]
    result = CliRunner().invoke(app, ["plan", *words])
    if isinstance(result.exception, WindlassError):
        return str(result.exception)
    answer = json.loads(result.stdout)
    return {key: answer[key] for key in SAME} if answer["fits"] else str(answer["error"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory for each configuration."""
    home = tmp_path_factory.mktemp("models")
    for name in MODELS:
        (home / name).mkdir()
        (home / name / "config.json").write_text(json.dumps(CONFIGS[name]))
    return home


@pytest.mark.parametrize("card", CARDS)  # not one item, which would take minutes
def test_both_sides_answer_alike(card: str, folder: Path) -> None:
    """The same cards, split, length, number format, method and figures; or both say that there is no way."""
    differ = {}
    for name in MODELS:
        for method in METHODS:
            ours, theirs = by_operator(name, card, method), by_command(folder / name, card, method)
            both_refuse = isinstance(ours, str) and isinstance(theirs, str)
            if ours != theirs and not both_refuse:
                differ[name, method] = (ours, theirs)
    assert differ == {}


def test_there_are_sixty_models_and_twelve_cards() -> None:
    """Of each compute capability that the engine has code for, and two that it has none for."""
    assert (len(set(MODELS)), len(set(CARDS)), len(MODELS) * len(CARDS) * len(METHODS)) == (60, 12, 1440)
