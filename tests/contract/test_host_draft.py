"""The operator's figures for a draft model on the host's cores are those of the server and of its decoder."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from windlass.engine.lookahead import settings
from windlass.launch.model import DraftFiles, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass.license.model import Gpu
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.args import server_args
from windlass_api.plan.decide import decide
from windlass_api.plan.model import Plan
from windlass_lookahead import draft_model
from windlass_sizing.model.facts import from_config
from windlass_sizing.placement import host_draft
from windlass_testbed.cases import every_case

sys.path.insert(0, str(Path(__file__).parent))

from spec_changes import INVENTORY

NODE = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
CONFIGS = {
    "Qwen2-0.5B": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
        "max_position_embeddings": 32768, "tie_word_embeddings": True,
    },
    "Llama-3.2-1B": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 131072, "head_dim": 64,
    },
    "short": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
        "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 8000,
        "max_position_embeddings": 256,
    },
}  # fmt: skip


DRAFT = from_config(CONFIGS["Llama-3.2-1B"])


def test_decoder_and_plan_know_the_same_families():
    assert set(host_draft.DECODERS) == set(draft_model.ARCHITECTURES)


@pytest.mark.parametrize("bits", host_draft.WEIGHT_BYTES)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_decoder_takes_what_is_planned(config, bits):
    """For as many requests as it drafts for."""
    shape, facts = draft_model.shape_of(config), from_config(config)
    for requests in (1, 64, 256):
        settings = draft_model.Settings(min(requests, host_draft.ROWS_MAX), body_bits=bits, head_bits=bits)
        planned = host_draft.host_draft_gib(facts, requests, bits) * 2**30
        assert planned == pytest.approx(draft_model.host_bytes(shape, settings), rel=1e-6)


def test_what_the_decoder_refuses_is_refused_in_the_plan(tmp_path):
    """Each size that it needs as a multiple of another."""
    (tmp_path / "model.safetensors").touch()
    config, facts = CONFIGS["Llama-3.2-1B"], from_config(CONFIGS["Llama-3.2-1B"])
    assert host_draft.unfit(facts) is None
    for name, size, at in (
        ("hidden_size", 2050, "hidden_size"),
        ("intermediate_size", 8200, "intermediate_size"),
        ("head_dim", 40, "head_dim"),
        ("num_attention_heads", 33, "num_attention_heads"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, name: size}))
        with pytest.raises(draft_model.OptionError, match=at):
            draft_model.check(tmp_path)
        assert at in host_draft.unfit(replace(facts, **{name: size}))[0]


@every_case("variable", [None, "true", "0"])
@every_case("field", [None, "gpu", "cpu"])
@every_case("words", [[], ["--cpu-draft-worker", "-tp", "1"], ["--no-cpu-draft-worker"]])
def test_a_draft_model_runs_where_it_is_planned(words, field, variable):
    """By flag, field and variable; with the planned threads on the host."""
    speculation = {"source": {"pvc": {"claimName": "d"}}, "runsOn": field}
    variables = {"CPU_DRAFT_WORKER": variable} if variable else {}
    spec = LLMServiceSpec.model_validate(
        {
            "model": {"id": "m", "source": {"pvc": {"claimName": "c"}}},
            "engine": {"speculation": speculation, "maxModelLen": 2048},
            "args": words,
            "env": [{"name": name, "value": value} for name, value in variables.items()],
        }
    )
    served = replace(from_config({**CONFIGS["Llama-3.2-1B"], "num_hidden_layers": 32}), draft=DRAFT)
    plan = decide(spec, served, INVENTORY)
    assert isinstance(plan, Plan), plan
    draft = DraftFiles("/data/draft", "/data/model", served, DRAFT, has_same_vocabulary=True)
    files = ModelFiles("/data/model", "llama", 131072, attention_heads=32, vocab_size=128256, draft=draft)
    started = resolve(server_args(spec, plan), {"HOME": "/cache", **variables}, files, NODE)
    known = settings.read(started.variables)
    assert known is not None  # on the card or the host, the integration drafts with it
    assert bool(known.draft_model) == ("draft model" in dict(plan.host_parts))
    assert not known.draft_model or known.draft_threads == plan.draft_threads


def test_rows_and_window_are_the_decoders():
    decoder = draft_model.Settings()
    assert (decoder.rows, decoder.window) == (host_draft.ROWS_MAX, host_draft.WINDOW)
