"""`windlass plan OWNER/NAME --hub`: the plan of a model before it is downloaded is that of its directory afterwards.

The hub is the one that the download's tests run, with both protocols.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "operator" / "download" / "tests" / "download"))

import pytest
from hub import Hub
from spec_changes import CONFIG
from typer.testing import CliRunner
from windlass.cli import hub_files
from windlass.cli.main import app
from windlass.errors import ModelError, UsageError

NAME = "qwen/Qwen2-7B"
FILES = {
    "config.json": json.dumps(CONFIG).encode(),
    "model.safetensors.index.json": json.dumps(
        {"metadata": {"total_size": 15_231_233_024}, "weight_map": {"w": "model-00001-of-00002.safetensors"}}
    ).encode(),
}
GPTQ = {**FILES, "quantize_config.json": json.dumps({"quant_method": "gptq", "bits": 4, "group_size": 128}).encode()}


@pytest.fixture
def hub() -> Iterator[Hub]:
    revisions = {"main": FILES, "master": FILES, "gptq": GPTQ}
    with Hub({NAME: revisions, "qwen/Empty": {"main": {"README.md": b"nothing"}}}) as running:
        yield running


def plan(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["plan", *words, "-o", "json"])
    assert result.exception is None, result.exception
    return dict(json.loads(result.stdout))


def refusal(kind: type[Exception], *words: str) -> str:
    result = CliRunner().invoke(app, ["plan", *words])
    assert type(result.exception) is kind, result.exception
    return str(result.exception)


@pytest.mark.parametrize("word", ["huggingface", "modelscope"])
def test_the_plan_is_that_of_the_directory(hub: Hub, tmp_path: Path, word: str) -> None:
    """Weights by the index, and no large file is asked for."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    by_hub = plan(NAME, "--hub", word, "--endpoint", hub.url)
    assert by_hub == plan(str(tmp_path))
    assert by_hub["weightsGib"] == pytest.approx(14.19, abs=0.01)
    assert not [seen.file for seen in hub.seen if seen.file.endswith(".safetensors")]


def test_settings_in_a_file_beside_are_read(hub: Hub) -> None:
    """Of the revision that is asked for."""
    words = (NAME, "--hub", "huggingface", "--endpoint", hub.url, "--revision", "gptq", "-q", "ifq")
    assert "is gptq already" in refusal(UsageError, *words)


def test_what_the_hub_does_not_give_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model as it was named, and what to do."""
    at = ("--hub", "huggingface", "--endpoint", hub.url)
    assert "qwen/None at main on http://127.0.0.1" in refusal(ModelError, "qwen/None", *at)
    assert "has no config.json; correct the name" in refusal(ModelError, "qwen/Empty", *at)
    hub.token = "right"
    monkeypatch.delenv("WINDLASS_HUB_TOKEN", raising=False)
    assert "set WINDLASS_HUB_TOKEN" in refusal(ModelError, NAME, *at)
    monkeypatch.setenv("WINDLASS_HUB_TOKEN", "right")
    assert plan(NAME, *at)["fits"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("../etc", "--hub", "huggingface"), '"../etc" is no model on a hub; write OWNER/NAME'),
        ((NAME, "--hub", "huggingface", "--endpoint", "hub"), '--endpoint "hub" is no base URL'),
        ((NAME, "--revision", "main"), "add --hub, or leave them out"),
    ],
)
def test_wrong_words_are_refused_before_the_hub_is_asked(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in refusal(UsageError, *words)


def test_a_file_that_comes_byte_by_byte_ends(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte within its time-out."""
    monkeypatch.setattr(hub_files, "FILE_S", -1.0)
    sentence = refusal(ModelError, NAME, "--hub", "huggingface", "--endpoint", hub.url)
    assert sentence.startswith(f"config.json of {NAME} at main on {hub.url} takes longer than")


def test_a_hub_that_does_not_answer_is_named(hub: Hub) -> None:
    closed = hub.url.rsplit(":", 1)[0] + ":9"
    sentence = refusal(ModelError, NAME, "--hub", "modelscope", "--endpoint", closed)
    assert sentence.startswith(f"{NAME} at master on {closed} cannot be read: ")
