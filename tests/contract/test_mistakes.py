"""docs/reference/mistakes.md is printed from real runs of wrong command lines; WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import windlass_deepspeed.cli
import windlass_license.cli
import windlass_operator.kubectl.__main__
from windlass import errors
from windlass.cli import main
from windlass_license.cli import EXIT_CODES as LICENSE_CODES
from windlass_operator.kubectl.parser import EXIT_CODES as PLUGIN_CODES

PAGE = Path(__file__).parents[2] / "docs/reference/mistakes.md"
HEAD = """\
# Mistakes and what is said

<!-- Printed from real runs: WINDLASS_GOLDEN=write pytest tests/contract/test_mistakes.py -->

Each of these ends at once, before a license, a GPU or a port is taken, with one sentence on standard error and an
[exit code](exit-codes.md). `model` is a directory with the configuration of a model of 4 attention heads and 4,096
tokens. In a pod the sentence is in `status.failure` too. A chart's values are checked by helm before anything is
installed: a misspelled one is refused wherever it stands.

| command | exit code | what is said |
| --- | --- | --- |
"""
MISTAKES = (
    "windlass run model --quantisation fp8",
    "windlass run model --max-modle-len 4096",
    "windlass run model --use-lookahaed",
    "windlass run model --kv-ofloading-size 4",
    "windlass run model --hf-overides.rope_theta 1e6",
    "windlass run model --kv-off 4",
    "windlass run model qwen",
    "windlass run model --enable-log-requests yes",
    "windlass run model --block-size",
    "windlass run model --port 99999",
    "windlass run model --port eight",
    "WINDLASS_FACTS_PORT=99999 windlass run model",
    "USE_LOOKAHEAD=maybe windlass run model",
    "windlass run model --dtype int3",
    "windlass run model --max-model-len lots",
    "windlass run model --max-model-len 8192",
    "windlass run model --gpu-memory-utilization 95",
    "windlass run model --tensor-parallel-size two",
    "windlass run model --conv-template mine",
    "windlass run model --enable-auto-tool-choice",
    "windlass run model --rope-scaling linear",
    "windlass run nofile",
    "windlass serve --modle model",
    "windlass pln model",
    "windlass plan nofile",
    "windlass plan model --max-model-len x",
    "windlass plan model --gpu-memory-utilization 1.5",
    "windlass plan model --gpu Z9",
    "windlass plan model --tensor-parallel-size 3",
    "windlass plan model --output xml",
    "windlass chat --server ftp://host hello",
    "windlass chat --top_p 3 hello",
    "windlass quantize smoothquant nofile --data texts",
    "windlass doctor model --output xml",
    "windlass-license serve --data data --port 99999",
    "windlass-license serve --data data --prot 10080",
    "windlass-license serve --data data --ttl-seconds soon",
    "windlass-license inspect nofile",
    "windlass-deepspeed run --modle model",
    "windlass-deepspeed run --port 99999",
    "kubectl windlass status --kubeconfig nofile",
)
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
NEVER = ("Errno", "Traceback", "Input should", "argument(s)")
"""Words of libraries, which say nothing to a user."""
LONGEST = 4 * 80
"""Characters of a sentence: four lines of a terminal hold it."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    said: str
    printed: str

    def row(self, line: str) -> str:
        """As the page has it."""
        return f"| `{line}` | {self.code} | {self.said.replace('|', chr(92) + '|')} |\n"


def ours(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("sys.argv", ["windlass", *words])
    return main.main()


def deepspeed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("sys.argv", ["windlass-deepspeed", *words])
    return windlass_deepspeed.cli.main()


def license_(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    return windlass_license.cli.main(words)


def plugin(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    return windlass_operator.kubectl.__main__.main(words[1:])


PROGRAMS: dict[str, tuple[Callable[[list[str], pytest.MonkeyPatch], object], set[int]]] = {
    "windlass": (ours, {row.code for row in errors.EXIT_CODES}),
    "windlass-deepspeed": (deepspeed, {row.code for row in errors.EXIT_CODES}),
    "windlass-license": (license_, {code for code, _ in LICENSE_CODES}),
    "kubectl": (plugin, {row.code for row in PLUGIN_CODES}),
}


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a line of the list where `model` and nothing else is."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(CONFIG))
    monkeypatch.chdir(tmp_path)
    for name in ("WINDLASS_ENGINE", "MODEL", "MODEL_PATH", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WINDLASS_TERMINATION_LOG", str(tmp_path / "words"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("WINDLASS_FACTS_PORT", str(free.getsockname()[1]))

    def run(line: str) -> Ended:
        words = shlex.split(line)
        with monkeypatch.context() as changed:
            while "=" in words[0]:
                changed.setenv(*words.pop(0).split("=", 1))
            program, *rest = words
            try:
                code = PROGRAMS[program][0](rest, changed)
            except SystemExit as end:
                code = end.code
        shown = capfd.readouterr()
        return Ended(int(str(code or 0)), shown.err.rstrip("\n"), shown.out)

    return run


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence_and_a_code_of_the_table(line: str, ended: Callable[..., Ended]) -> None:
    """The page has the same; what to do stands behind the last semicolon."""
    found = ended(line)
    program = next(name for name in PROGRAMS if re.search(rf"(^| ){name} ", line))
    assert found.code in PROGRAMS[program][1] - {0}
    assert (found.printed, found.said.count("\n")) == ("", 0)
    assert [word for word in NEVER if word in found.said] == []
    assert len(found.said) <= LONGEST
    assert ";" in found.said
    if os.environ.get("WINDLASS_GOLDEN") != "write":
        assert found.row(line) in PAGE.read_text()


def test_page_is_current(ended: Callable[..., Ended]) -> None:
    """Nothing else stands there."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(HEAD + "".join(ended(line).row(line) for line in MISTAKES))
    text = PAGE.read_text()
    assert text.startswith(HEAD)
    assert [row.split("`")[1] for row in text.removeprefix(HEAD).splitlines()] == list(MISTAKES)
