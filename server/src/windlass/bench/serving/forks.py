"""Runs vLLM's client again and again in one process that has imported it: `python -P -m windlass.bench.serving.forks`.

A start of the client imports torch and takes seconds, more than many a measurement. This process imports once and forks
for each command, which is then what `python -P -m vllm.entrypoints.cli.main` is. It reads a JSON line a command from
standard input and writes the exit code of each into the pipe that its first word names.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import traceback
from typing import TextIO

from windlass.bench.serving import line_reader, unlike
from windlass.bench.serving.command import CLIENT

CLI = "vllm.entrypoints.cli.main"
IMPORTED_BY_IT = (
    *("vllm.benchmarks.serve", "vllm.entrypoints.cli.benchmark.main", "vllm.entrypoints.cli.serve"),
    *("vllm.entrypoints.cli.launch", "vllm.entrypoints.cli.openai", "vllm.entrypoints.cli.run_batch"),
)
"""Modules that the command imports only when it runs; a module that a release lacks is left out."""
TOKENIZER = "tokenizer"
"""A word in the place of a command: check the tokenizer of the directory that follows."""
ALIKE = 3
"""The exit code of that check when the tokenizer merges unlike tokens."""
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run commands until standard input ends, or SIGTERM comes, which also ends the running command."""
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as codes:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
        importlib.import_module(CLI)
        for name in IMPORTED_BY_IT:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
        gc.collect()
        gc.freeze()  # no fork walks over what was imported, which would copy its pages while it measures
        for line in sys.stdin:
            asked = json.loads(line)
            _answer(asked["words"], asked["variables"], codes)


def _answer(words: list[str], variables: dict[str, str], codes: TextIO) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        codes.close()
        os._exit(_run(words, variables))

    def end(number: int, _: object) -> None:
        os.kill(pid, number)
        os.waitpid(pid, 0)
        os._exit(128 + number)

    previous = signal.signal(signal.SIGTERM, end)
    _, status = os.waitpid(pid, 0)
    signal.signal(signal.SIGTERM, previous)
    codes.write(f"{os.waitstatus_to_exitcode(status)}\n")
    codes.flush()


def _run(words: list[str], variables: dict[str, str]) -> int:
    """Run the command in this fork; return its exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(variables)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if words[:1] == [TOKENIZER]:
        return ALIKE if unlike.of_directory(words[1]) < unlike.SHARE_MIN else 0
    with contextlib.suppress(ModuleNotFoundError):
        line_reader.stand_in()
    module = importlib.import_module(CLI)
    sys.argv = [str(module.__file__), *words[len(CLIENT) - 2 :]]
    code: object = 0
    try:
        module.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(bool(code))


if __name__ == "__main__":
    main()
