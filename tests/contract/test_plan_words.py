"""`windlass plan` and the operator say the same of the same plan: total, requests at once, warnings."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Inventory, NodeGpus, Plan
from windlass_sizing.model.facts import from_config

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
CARDS = {"L20": NodeGpus("a", "NVIDIA-L20", 44.99, 8, 8), "A10": NodeGpus("b", "NVIDIA-A10", 22.49, 8, 8)}


@pytest.mark.parametrize("length", [4096, 8192, 131072])
@pytest.mark.parametrize("card", CARDS)
def test_both_say_the_same(card, length, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B))
    words = ["plan", str(tmp_path), "--gpu", card, "--max-model-len", str(length)]
    printed = CliRunner().invoke(app, words).stdout
    answer = json.loads(CliRunner().invoke(app, [*words, "-o", "json"]).stdout)
    spec = {"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, "engine": {"maxModelLen": length}}
    plan = decide(LLMServiceSpec.model_validate(spec), from_config(LLAMA_8B), Inventory((CARDS[card],)))
    assert isinstance(plan, Plan)
    alike = [line for line in plan.because if "fit in the KV cache at once" in line or line.startswith("warning: ")]
    assert alike
    assert [line for line in alike if line not in printed] == []
    assert plan.to_status()["requiredGib"] == f"{answer['requiredGib']:.2f}"
    assert plan.gpus == answer["gpus"]
