"""Files that a start command names: what is not there is said before anything is opened."""

import json

import pytest
from windlass.errors import ModelError, UsageError
from windlass.launch import exec as launch
from windlass.launch import paths

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """What `run` decides for these words, in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_ENGINE", "cpu")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(CONFIG))
    return lambda *words: launch.plan(words, {"WINDLASS_ENGINE": "cpu"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chat-template", "no.jinja"), "--chat-template no.jinja is not there; name a file, or write the template"),
        (("--generation-config", "./none"), "--generation-config ./none is no directory; name one with a generation"),
        (("--config", "no.yaml"), "--config no.yaml is not there; name a YAML file with flags of the engine"),
        (("--config=no.yaml",), "--config no.yaml is not there; name a YAML file with flags of the engine"),
    ],
)
def test_a_file_that_is_not_there_is_named(plan, words, said):
    with pytest.raises(UsageError) as refused:
        plan("model", *words)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "words",
    [
        ("--chat-template", "{{ messages[0].content }}"),
        ("--chat-template", "model/config.json"),
        ("--generation-config", "vllm"),
        ("--generation-config", "auto"),
        ("--generation-config", "./model"),
        ("--config", "model/config.json"),
        ("--conv-template", "llama-2"),
    ],
)
def test_what_is_there_or_no_path_passes(plan, words):
    plan("model", *words)


def test_a_template_of_the_engines_own_passes(plan, tmp_path, monkeypatch):
    own = tmp_path / paths.ENGINES_TEMPLATES
    own.mkdir(parents=True)
    (own / "template_chatml.jinja").write_text("{{ x }}")
    monkeypatch.setattr(paths.release, "installed", lambda: tmp_path)
    plan("model", "--chat-template", "template_chatml.jinja")


def test_a_file_in_the_directorys_place_is_named(plan):
    with pytest.raises(ModelError) as refused:
        plan("model/config.json")
    assert str(refused.value) == "model/config.json is a file; name the model directory that holds it with --model"
