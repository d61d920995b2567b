"""The doctor looks at a model directory of adapters as the server does: with the base that a start would take."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from windlass.doctor.gather import gather

DEMO = Path(__file__).parents[3] / "models" / "demo"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """An adapter; the demo model lies two directories up under the name that it gives."""
    base, place = tmp_path / "bases" / "demo", tmp_path / "loras" / "sql"
    base.mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(DEMO / name, base / name)
    place.mkdir(parents=True)
    said = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "bias": "none", "base_model_name_or_path": str(base)}
    (place / "adapter_config.json").write_text(json.dumps(said))
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    body = len(header).to_bytes(8, "little") + header + bytes(4)
    (place / "adapter_model.safetensors").write_bytes(body)
    return place


def test_the_base_of_an_adapter_is_looked_at(adapter: Path) -> None:
    """Its facts, by the path in the adapter's configuration or by BASE_MODEL."""
    for variables in ({}, {"BASE_MODEL": str(adapter.parents[1] / "bases/demo")}):
        seen = gather(("--model", str(adapter)), variables).checkpoint
        assert seen.facts is not None, seen.message
        assert (seen.facts.architecture, seen.facts.is_adapter, seen.facts.lora_rank) == ("Qwen2ForCausalLM", True, 8)


def test_a_missing_base_is_reported(adapter: Path) -> None:
    """With the model directory's own name."""
    shutil.rmtree(adapter.parents[1] / "bases")
    seen = gather(("--model", str(adapter)), {}).checkpoint
    assert seen.reason == "BaseMissing"
    assert seen.message.startswith(f"model directory {adapter} is a LoRA adapter of ")
