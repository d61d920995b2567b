"""docs/reference/mistakes.md is printed from real runs of wrong command lines; WINDLASS_GOLDEN=write rewrites it."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
import windlass_deepspeed.cli
import windlass_kubectl.__main__
import windlass_license.cli
from windlass import errors
from windlass.cli import main
from windlass_kubectl.parser import EXIT_CODES as PLUGIN_CODES
from windlass_license.cli import EXIT_CODES as LICENSE_CODES
from windlass_testbed.ports import free_port

PAGE = Path(__file__).parents[2] / "docs/reference/mistakes.md"
HEAD = """\
# Mistakes and what is said

<!-- Printed from real runs: WINDLASS_GOLDEN=write pytest tests/contract/test_mistakes.py -->

Each of these ends at once, before a license, a GPU or a port is taken, with one sentence on standard error and an
[exit code](exit-codes.md). `model` is a directory with the configuration of a model of 4 attention heads and 4,096
tokens. In a pod the sentence is in `status.failure` too. A chart's values are checked by helm before anything is
installed: a misspelled one is refused wherever it stands.

`source <(windlass completion bash)` lets the shell complete commands, options, and the flags of `run` with the
engine's (`zsh` and `fish` too); `kubectl windlass completion` does it for the plug-in.

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
    "windlass run model --top-p 0.5",
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
    "windlass run model --chat-template nofile",
    "windlass run model --config nofile",
    "windlass run nofile",
    "windlass run model/config.json",
    "windlass serve --modle model",
    "windlass pln model",
    "windlass plan nofile",
    "windlass plan model --max-model-len x",
    "windlass plan model --gpu-memory-utilization 1.5",
    "windlass plan model --gpu Z9",
    "windlass plan model --tensor-parallel-size 3",
    "windlass plan model --output xml",
    "windlass bench replay --traces nofile",
    "windlass bench replay --traces /dev/null",
    "windlass bench serve --tokenizer nofile",
    "windlass bench serve --tokenizer model --concurrency 1,many",
    "windlass bench serve --tokenizer model --request-rate fast",
    "windlass bench serve --tokenizer model --dataset sharegpt",
    "windlass bench serve --tokenizer model --goodput itl:20",
    "windlass chat --server ftp://host hello",
    "windlass chat --top_p 3 hello",
    "windlass quantize smoothquant nofile --data texts",
    "windlass doctor model --output xml",
    "windlass completion",
    "windlass-license serve --data data --port 99999",
    "windlass-license serve --data data --prot 10080",
    "windlass-license serve --data data --ttl-seconds soon",
    "windlass-license keygen --out model/config.json",
    "windlass-license inspect nofile",
    "windlass-license inspekt",
    "windlass-deepspeed run --modle model",
    "windlass-deepspeed run --port 99999",
    "windlass-deepspeed run --worker-num 0",
    "windlass-deepspeed run --ds-dtype int4",
    "kubectl windlass status --kubeconfig nofile",
    "kubectl windlass plan -f nofile",
    "kubectl windlass usage --from 2026-11-02 --to 2026-11-01",
    "kubectl windlass plann",
    "kubectl windlass status --output xml",
    "kubectl windlass status --selctor a=b",
    "kubectl windlass create qwen --modle hf://Qwen/Qwen2.5-7B-Instruct",
    "kubectl windlass create qwen --model Qwen/Qwen2.5-7B-Instruct",
    "kubectl windlass create Qwen --model hf://Qwen/Qwen2.5-7B-Instruct",
    "kubectl windlass create qwen --model hf://Qwen/Qwen2.5-7B-Instruct --size 50GB",
    "kubectl windlass create qwen --model hf://Qwen/Qwen2.5-7B-Instruct --gpus one",
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
LONGEST = 5 * 80
"""Characters of a sentence: five lines of a terminal hold it."""


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
    return windlass_kubectl.__main__.main(words[1:])


PROGRAMS: dict[str, tuple[Callable[[list[str], pytest.MonkeyPatch], object], set[int]]] = {
    "windlass": (ours, {row.code for row in errors.EXIT_CODES}),
    "windlass-deepspeed": (deepspeed, {row.code for row in errors.EXIT_CODES}),
    "windlass-license": (license_, {code for code, _ in LICENSE_CODES}),
    "kubectl": (plugin, {row.code for row in PLUGIN_CODES}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Every line, run where `model` and nothing else is."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(CONFIG))
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(folder)
        for name in ("WINDLASS_ENGINE", "MODEL", "MODEL_PATH", "KUBECONFIG"):
            changed.delenv(name, raising=False)
        changed.setenv("WINDLASS_TERMINATION_LOG", str(folder / "words"))
        changed.setenv("WINDLASS_FACTS_PORT", str(free_port()))
        return {line: ended(line) for line in MISTAKES}


def ended(line: str) -> Ended:
    """Run a line of the list in this process, by the program's entry point."""
    words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as changed, redirect_stdout(out), redirect_stderr(err):
        while "=" in words[0]:
            changed.setenv(*words.pop(0).split("=", 1))
        program, *rest = words
        try:
            code = PROGRAMS[program][0](rest, changed)
        except SystemExit as end:
            code = end.code
    return Ended(int(str(code or 0)), err.getvalue().rstrip("\n"), out.getvalue())


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence_and_a_code_of_the_table(line: str, found: dict[str, Ended]) -> None:
    """What to do stands behind the last semicolon."""
    one = found[line]
    program = next(name for name in PROGRAMS if re.search(rf"(^| ){name} ", line))
    assert one.code in PROGRAMS[program][1] - {0}
    assert (one.printed, one.said.count("\n")) == ("", 0)
    assert [word for word in NEVER if word in one.said] == []
    assert len(one.said) <= LONGEST
    assert ";" in one.said


def test_page_is_current(found: dict[str, Ended]) -> None:
    """What is said now is what is committed."""
    text = HEAD + "".join(found[line].row(line) for line in MISTAKES)
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(text)
    assert text == PAGE.read_text()
