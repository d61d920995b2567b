"""What is read of a model directory and of the machine."""

import json
from pathlib import Path

import pytest
from windlass.errors import ModelError
from windlass.launch import probe
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


def model_directory(path: Path, config: object = CONFIG, **files: object) -> Path:
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def test_facts_of_a_model(tmp_path: Path) -> None:
    """Length, heads and the platform's own file are read."""
    named = {"model_id": "qwen", "conv_template_name": "x"}
    files = probe.model_files(str(model_directory(tmp_path, ti_model_config=named)))
    assert (files.model_type, files.max_model_len, files.attention_heads, files.model_id) == ("qwen2", 4096, 4, "qwen")


@pytest.mark.parametrize(
    ("files", "has_plain_weights"),
    [
        ([], True),  # the engine says what is missing
        ([SMOOTHQUANT_FILE], False),
        ([SMOOTHQUANT_FILE, "model.safetensors"], True),
        (["model.safetensors"], True),
    ],
)
def test_smoothquants_file_alone_is_seen(tmp_path: Path, files: list[str], has_plain_weights: bool) -> None:
    """By the names that inspection goes by, too."""
    for name in files:
        (tmp_path / name).touch()
    assert probe.model_files(str(model_directory(tmp_path))).has_plain_weights == has_plain_weights


def test_gguf_files_are_seen_as_what_they_are(tmp_path: Path) -> None:
    """The configuration says nothing of them."""
    (tmp_path / "model-Q4_K_M.gguf").touch()
    assert probe.model_files(str(model_directory(tmp_path))).quantization == "gguf"


def test_unknown_kind_of_model_is_left_to_the_engine(tmp_path: Path) -> None:
    """A config that the formula cannot read is not refused here."""
    files = probe.model_files(str(model_directory(tmp_path, {"model_type": "new"})))
    assert (files.model_type, files.max_model_len) == ("new", None)


@pytest.mark.parametrize(
    ("config", "said"),
    [("{", "config.json is broken: "), ("[]", "config.json is broken: it holds no JSON object; copy")],
)
def test_broken_config(tmp_path: Path, config: str, said: str) -> None:
    """A broken file is named."""
    with pytest.raises(ModelError) as error:
        probe.model_files(str(model_directory(tmp_path, config)))
    assert said in str(error.value)


def test_missing_directory_and_missing_config(tmp_path: Path) -> None:
    """The sentence says what is there instead."""
    with pytest.raises(ModelError, match="is not there; mount the model"):
        probe.model_files(str(tmp_path / "nope"))
    (tmp_path / "qwen2-7b").mkdir()
    with pytest.raises(ModelError, match=r"has no config\.json; it has: qwen2-7b; check"):
        probe.model_files(str(tmp_path))


def test_engine_kind_is_the_images_word() -> None:
    """The image says it; without it the installed engine tells."""
    assert probe.engine_kind({"WINDLASS_ENGINE": "cpu"}) == "cpu"
    assert probe.engine_kind({"WINDLASS_ENGINE": "cuda"}) == "cuda"
    assert probe.engine_version("no-such-distribution") == ""
