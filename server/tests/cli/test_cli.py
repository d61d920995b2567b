"""The command line from outside: exit codes, sentences, help, and what it does not import."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.cli.main import app
from windlass.table import plain
from windlass_sizing.settings.flags import FLAGS
from windlass_testbed.ports import free_port

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


def windlass(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": os.environ["PATH"], "HOME": "/tmp", "WINDLASS_FACTS_PORT": str(free_port()), **environment}
    command = [sys.executable, "-m", "windlass.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "reason", "said"),
    [
        (("--model", "{model}", "--dtype", "int3"), 2, "BadFlag", 'windlass: --dtype is "int3"; choose one of auto'),
        (("--model", "{model}", "stray"), 2, "BadFlag", 'windlass: "stray" belongs to no flag'),
        (("--model", "/nope"), 3, "ModelMissing", "windlass: model directory /nope is not there; mount the model"),
    ],
)
def test_run_that_cannot_start(
    model: Path, tmp_path: Path, words: tuple[str, ...], code: int, reason: str, said: str
) -> None:
    """One sentence, the right exit code, and the same for Kubernetes."""
    log = tmp_path / "termination"
    named = [word.replace("{model}", str(model)) for word in words]
    result = windlass("run", *named, WINDLASS_TERMINATION_LOG=str(log))
    assert (code, "") == (result.returncode, result.stdout)
    assert [said] == [line[: len(said)] for line in result.stderr.splitlines()]
    assert (reason, code) == tuple(json.loads(log.read_text())[name] for name in ("reason", "exitCode"))


def test_run_without_an_engine(model: Path, tmp_path: Path) -> None:
    """Where no engine is installed the termination message says what its process said."""
    log = tmp_path / "termination"
    result = windlass("run", str(model), WINDLASS_LICENSE_REQUIRED="false", WINDLASS_TERMINATION_LOG=str(log))
    words = json.loads(log.read_text())
    assert (result.returncode, words["reason"]) == (1, "EngineFailed")
    assert "vllm" in words["excerpt"]


def test_bad_variables_of_our_own(model: Path) -> None:
    """Variables that are no flag's are checked too."""
    result = windlass("run", str(model), WINDLASS_LICENSE_REQUIRED="perhaps")
    assert (
        result.returncode,
        result.stderr.splitlines(keepends=True)[-1],
    ) == (2, 'windlass: variable WINDLASS_LICENSE_REQUIRED is "perhaps"; write true or false\n')


@pytest.mark.parametrize("port", ["99999", "0", "http"])
def test_a_facts_port_that_is_none(model: Path, port: str) -> None:
    """Before anything is opened."""
    result = windlass("run", str(model), WINDLASS_FACTS_PORT=port)
    said = f'windlass: variable WINDLASS_FACTS_PORT is "{port}", which is no port; write a number from 1 to 65535'
    assert (result.returncode, result.stderr.startswith(said)) == (2, True)


def test_explain(model: Path) -> None:
    """Each value, where it came from, and the engine's words, with nothing started."""
    result = windlass("run", "--explain", str(model), "--api-keys", "s3cret", DTYPE="bfloat16", WINDLASS_ENGINE="cuda")
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines()}
    assert rows["dtype"] == ["dtype", "bfloat16", "variable", "DTYPE"]
    assert rows["max-model-len"] == ["max-model-len", "4096", "default", "the", "model's", "own"]
    assert "s3cret" not in result.stdout
    assert "--dtype bfloat16" in result.stdout.splitlines()[-1]


@pytest.mark.parametrize("word", ["--help", "-h", "--help=port"])
def test_run_help_lists_every_flag(word: str) -> None:
    """The help is the table."""
    text = CliRunner().invoke(app, ["run", word]).stdout
    assert [flag.name for flag in FLAGS if f"--{flag.name}" not in text] == []


@pytest.mark.parametrize("word", ["--help", "chat --help", "plan --help", "run --help"])
def test_help_loads_no_engine(word: str) -> None:
    """Neither torch nor vLLM: they are what would make it slow; `make bench-cli` prints the seconds."""
    program = (
        "import sys; sys.argv = ['windlass', *sys.argv[1:]]\nfrom windlass.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'vllm', 'transformers'} & set(sys.modules); sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", program, *word.split()], check=True, capture_output=True)


def test_version() -> None:
    """Both versions in one line."""
    assert windlass("version").stdout.startswith("windlass 0.")


def test_plain_table() -> None:
    """Columns line up, and no line ends in blanks."""
    assert plain([("A", "B"), ("xx", "y"), ("x", "")]) == ["A   B", "xx  y", "x"]
