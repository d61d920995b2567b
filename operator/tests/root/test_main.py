"""The command line: help, version, inspect, and settings that end it with 2."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace

import pytest
from windlass_operator import __main__ as command
from windlass_operator import __version__
from windlass_operator.__main__ import main
from windlass_operator.settings import VARIABLES

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "max_position_embeddings": 64,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def volume(tmp_path):
    """A volume with one small checkpoint, called `tiny`."""
    model = tmp_path / "volume" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    (model / "tokenizer.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return model.parent


def inspect(volume, log, path):
    words = ["inspect", "--root", str(volume), "--path", path, "--source", "pvc/models", "--termination-log", str(log)]
    return main(words), json.loads(log.read_text())


def test_inspect_reports_the_facts(volume, tmp_path):
    code, report = inspect(volume, tmp_path / "log", "tiny")
    assert (code, report["ok"]) == (0, True)
    assert report["facts"]["architecture"] == "Qwen2ForCausalLM"


def test_inspect_says_what_is_there_instead(volume, tmp_path):
    """A wrong path is an answer, not a failure: exit 0, with the names that are there."""
    code, report = inspect(volume, tmp_path / "log", "nope")
    assert (code, report["ok"], report["reason"]) == (0, False, "PathNotFound")
    assert report["message"] == 'source.path "nope" is not in PVC models; / has: tiny'


def test_inspect_takes_the_log_from_the_environment(volume, tmp_path, monkeypatch):
    monkeypatch.setenv("WINDLASS_TERMINATION_LOG", str(tmp_path / "env-log"))
    assert main(["inspect", "--root", str(volume), "--path", "tiny"]) == 0
    assert (tmp_path / "env-log").exists()


def test_inspect_that_cannot_answer_fails(volume, tmp_path, capsys):
    log = tmp_path / "no" / "log"
    assert main(["inspect", "--root", str(volume), "--termination-log", str(log)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_broken_settings_are_one_sentence_and_exit_2(monkeypatch, capsys):
    for row in VARIABLES:
        monkeypatch.delenv(row.name, raising=False)
    assert main(["run"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "windlass-operator: WINDLASS_SERVER_IMAGE is not set: "
        "give it the repository of the serving image, without a tag; @sha256:… may follow"
    ]


def test_no_cluster_is_one_sentence_and_exit_2(tmp_path, monkeypatch, capsys):
    """Without a service account and a kubeconfig there is nothing to watch."""
    monkeypatch.setattr(command, "gc", SimpleNamespace(freeze=lambda: None, set_threshold=lambda *_: None))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    images = {"SERVER_IMAGE": "windlass/server", "SERVER_VERSION": "1.2", "OPERATOR_IMAGE": "windlass/operator:1.2"}
    for name, value in images.items():
        monkeypatch.setenv(f"WINDLASS_{name}", value)
    assert main(["run"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"windlass-operator: no access to a cluster: no service account of a pod, and no kubeconfig {tmp_path / 'none'}"
    ]


def test_version(capsys):
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_help_names_every_variable(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = capsys.readouterr().out
    assert [row.name for row in VARIABLES if row.name not in text] == []
