"""The words of `bench run` and `bench server`: refused in one sentence before anything starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.bench.running import servers
from windlass.bench.running.matrix import Arm
from windlass.cli.main import app


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--matrix", "quantization"], "write a name and values"),
        (["run", "--matrix", "quantization=none", "lookahead=maybe"], "write off, on or off,on"),
        (["run", "--flags", "'--dtype"], "--flags is"),
        (["run", "--dataset", "sharegpt"], "needs its file"),
        (["run", "--dataset", "trace", "--dataset-path", "t.jsonl"], "give --api completions with it"),
        (["server", "--matrix", "quantization=none,fp8"], "names 2 servers; bench server starts one"),
    ],
)
def test_refused(model: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a server is started or a folder made."""
    monkeypatch.chdir(model)
    monkeypatch.setattr("windlass.bench.serving.run.must_have_client", lambda: None)
    refused = CliRunner().invoke(app, ["bench", *words, "--model", str(model)])
    assert said in str(refused.exception)
    assert not (model / "bench-run").exists()


def test_commands(model: Path) -> None:
    """Ours has its flags behind the model; the engine's own is vLLM's command, without our plug-ins."""
    ours = servers.command(Arm("a", ("--quantization", "fp8")), model, 8700)
    assert ours[1:6] == ["-m", "windlass.cli.main", "run", "--model", str(model)]
    assert ours[-2:] == ["--quantization", "fp8"]
    stock = servers.command(Arm("stock", is_stock=True), model, 8701)
    assert stock[1:5] == ["-m", "vllm.entrypoints.cli.main", "serve", str(model)]
    assert stock[5:9] == ["--host", "127.0.0.1", "--port", "8701"]
    assert servers.variables(Arm("stock", is_stock=True), 1) == {"VLLM_PLUGINS": ""}
    assert servers.variables(Arm("a"), 8702) == {"WINDLASS_FACTS_PORT": "8702"}
