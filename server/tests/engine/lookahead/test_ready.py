"""What refuses a start before the engine is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from windlass.engine.lookahead import ready
from windlass.engine.lookahead.settings import VARIABLE, LookaheadSettings
from windlass.engine.startup import memory
from windlass.errors import UsageError


def check(folder: Path, exchanges: object, **options: int) -> None:
    (folder / "warm.json").write_text(json.dumps(exchanges))
    (folder / "lookahead_cache_config.json").write_text(json.dumps({"warmup_file": f"{folder}/warm.json", **options}))
    ready.check({VARIABLE: LookaheadSettings(config_dir=str(folder)).to_json()}, vocabulary=8000)


def test_a_warm_up_file_in_the_models_tokens_is_taken(tmp_path):
    """By the model's vocabulary, whatever the configuration says of its size."""
    check(tmp_path, [{"prompt": [1, 7999], "output": []}], voc_size=100)


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        ({"prompt": [8000], "output": []}, "exchange 1: token id 8000 at index 0 is outside the vocabulary"),
        ({"prompt": [1], "output": ["two"]}, "exchange 1: the token id at index 0 is not an integer from 0 up"),
        ({"prompt": [1]}, 'exchange 1: needs "prompt" and "output"'),
    ],
)
def test_a_warm_up_file_of_another_model_is_refused(tmp_path, exchange, words):
    """With the exchange, and what to do."""
    with pytest.raises(UsageError, match=words) as error:
        check(tmp_path, [{"prompt": [1], "output": [2]}, exchange])
    assert str(error.value).startswith("--lookahead-cache-config-dir: warm-up file ")
    assert str(error.value).endswith("; correct it or leave it out")


def test_an_image_without_the_core_says_so(monkeypatch):
    """Only where lookahead is asked for."""
    monkeypatch.setattr(ready, "PACKAGE", "windlass_lookahead_that_is_not_here")
    ready.check({})
    with pytest.raises(UsageError, match="needs the package windlass-lookahead; install windlass-server"):
        ready.check({VARIABLE: LookaheadSettings().to_json()})


def check_draft_model(folder: Path, config: dict[str, object], **known: int) -> tuple[str, ...]:
    (folder / "config.json").write_text(json.dumps(config))
    return ready.check({VARIABLE: LookaheadSettings(draft_model=str(folder), **known).to_json()})


QWEN = {
    "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 512,
}  # fmt: skip


def test_a_draft_model_that_the_decoder_knows_is_taken(tmp_path):
    """And the start says what it takes; a context of 512 tokens in 2 layers takes 0.25 MiB a request."""
    (tmp_path / "model.safetensors").touch()
    (note,) = check_draft_model(tmp_path, QWEN, draft_threads=3)
    assert note == f"the engine drafts on 3 of the host's cores by {tmp_path}, in 0.0 GiB of host memory in all"


def test_memory_is_checked_for_the_requests_that_run_at_once(tmp_path, monkeypatch):
    """64 requests at most have keys and values on the host."""
    (tmp_path / "model.safetensors").touch()
    many = {**QWEN, "num_hidden_layers": 64, "num_key_value_heads": 4, "max_position_embeddings": 1024}
    monkeypatch.setattr(memory, "host_bytes", lambda: 2**30 // 2)
    check_draft_model(tmp_path, many, draft_rows=8)
    for rows in (0, 256):
        with pytest.raises(UsageError, match=r"takes 1\.0 GiB"):
            check_draft_model(tmp_path, many, draft_rows=rows)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, "does not know GPT2LMHeadModel"),
        ({}, "has no model.safetensors"),
        ({"vocab_size": 10**12}, "GiB of the host's memory"),
    ],
)
def test_a_draft_model_that_cannot_run_on_the_host_is_refused(tmp_path, config, words):
    """Before the engine starts, with the flag that asked for it."""
    if "vocab_size" in config:
        (tmp_path / "model.safetensors").touch()
    with pytest.raises(UsageError, match=words) as error:
        check_draft_model(tmp_path, {**QWEN, **config})
    assert str(error.value).startswith("--cpu-draft-worker: ")
