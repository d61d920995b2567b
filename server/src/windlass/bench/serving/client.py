"""vLLM's client as a child process: one process serves all points of a benchmark and forks for each (see `forks`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Self, TextIO

from windlass.bench.serving.forks import ALIKE, TOKENIZER

FORKS = ("-P", "-m", "windlass.bench.serving.forks")
LEFT_OUT = frozenset({"OPENAI_API_KEY", "VLLM_USE_RUST_BENCH"})
"""A key of another server; a client with other options."""
FIXED = {"HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
"""The client asks no hub for a tokenizer; Python's hash of a text, by which vLLM draws a trace, is fixed."""
END_TIMEOUT_S = 10.0
"""Seconds that the client has to end after Ctrl-C."""


ALIKE_SAID = (
    "the tokenizer of {} turns unlike tokens into the same ones, so drawn prompts are alike: a prefix cache answers "
    "them, and lengths are wrong; give the tokenizer's directory as the model's maker has it"
)


class Client:
    """A context manager: the process lives as long as the context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._codes: TextIO | None = None

    def __enter__(self) -> Self:
        """Start the process, which imports vLLM in the background."""
        ours, theirs = os.pipe()
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        self._process = subprocess.Popen(
            [sys.executable, *FORKS, str(theirs)],
            env={**kept, **FIXED},
            stdin=subprocess.PIPE,
            text=True,
            pass_fds=(theirs,),
        )
        os.close(theirs)
        self._codes = os.fdopen(ours, encoding="utf-8")
        return self

    def __exit__(self, *why: object) -> None:
        """End the process and the command that it runs."""
        process, codes = self._process, self._codes
        if process is None or codes is None or process.stdin is None:
            return
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        codes.close()
        process.stdin.close()

    def makes_alike(self, tokenizer: str) -> bool:
        """Whether prompts drawn with this tokenizer are alike; one that cannot be read is left to the client."""
        return self.run([TOKENIZER, tokenizer], {}) == ALIKE

    def run(self, words: Sequence[str], variables: Mapping[str, str]) -> int:
        """Run one command on this terminal; return its exit code."""
        if self._process is None or self._process.stdin is None or self._codes is None:
            raise RuntimeError("the client runs inside of its context")
        try:
            self._process.stdin.write(json.dumps({"words": list(words), "variables": dict(variables)}) + "\n")
            self._process.stdin.flush()
            line = self._codes.readline()
        except BrokenPipeError:
            line = ""
        return int(line) if line else self._process.wait()
