"""`windlass doctor` from outside: table, JSON and exit code."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from windlass.cli.doctor import split_output
from windlass.cli.main import app
from windlass.errors import UsageError
from windlass_testbed.ports import free_port

MODEL = str(Path(__file__).parents[3] / "models" / "demo")


@pytest.fixture(autouse=True)
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_FACTS_PORT", str(free_port()))
    monkeypatch.setenv("WINDLASS_ENGINE", "cpu")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setattr("windlass.launch.probe.engine_version", lambda name="vllm": "0.32.0")


def test_json_and_exit_code() -> None:
    """Nothing failed, so the exit code is 0, and each row is there."""
    port = str(free_port())
    done = CliRunner().invoke(app, ["doctor", MODEL, "--port", port, "--enforce-eager", "-o", "json"])
    answer = json.loads(done.stdout)
    assert (done.exit_code, answer["ok"]) == (0, True), done.stdout
    outcomes = {row["name"]: row["outcome"] for row in answer["checks"]}
    assert (outcomes["checkpoint"], outcomes["memory"], outcomes["license"]) == ("ok", "ok", "skip")


def test_table_and_what_to_do() -> None:
    """A failure is exit code 1, and what to do stands under the table."""
    done = CliRunner().invoke(app, ["doctor", "/nope"])
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["CHECK", "OUTCOME", "SEEN"]
    assert any(line.startswith("checkpoint: copy or download") for line in lines)


def test_help_lists_the_checks() -> None:
    """The help is the table of checks."""
    assert "no lease is taken" in CliRunner().invoke(app, ["doctor", "--help"]).stdout


@pytest.mark.parametrize(
    ("words", "split"),
    [
        (("/m", "-o", "json", "-tp", "2"), (("/m", "-tp", "2"), "json")),
        (("--output=json",), ((), "json")),
        (("/m",), (("/m",), "table")),
    ],
)
def test_split_output(words: tuple[str, ...], split: tuple[tuple[str, ...], str]) -> None:
    """All other words are those of `run`."""
    assert split_output(words) == split


def test_wrong_output() -> None:
    """Another word is refused with those that are known."""
    with pytest.raises(UsageError, match='--output is "yaml"; choose one of table, json'):
        split_output(("-o", "yaml"))


def test_version_as_json() -> None:
    """Both versions for programs."""
    answer = json.loads(CliRunner().invoke(app, ["version", "-o", "json"]).stdout)
    assert answer["engine"] == {"name": "vllm", "version": "0.32.0"}
    assert answer["windlass"].startswith("0.")
