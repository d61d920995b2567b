"""What a program does where its standard output cannot be written: as a process, since Python flushes at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from windlass_base.command_line import output_checked

PROGRAM = """
import argparse, sys
from windlass_base.command_line import output_checked

@output_checked("anchor")
def main():
    {body}

sys.exit(main())
"""
FULL = "anchor: standard output cannot be written: No space left on device\n"
OWN = "open('/dev/full', 'w', buffering=1).write('a line\\n')"
MODES: dict[str, dict[str, str]] = {"buffered": {}, "unbuffered": {"PYTHONUNBUFFERED": "1"}}


def ended(body: str, out: str, mode: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and standard error; `out` is a path, or `closed` for a pipe that nobody reads."""
    if out == "closed":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open(out, os.O_WRONLY)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", PROGRAM.format(body=body)]
    try:
        done = subprocess.run(command, stdout=write, stderr=-1, text=True, env={**env, **mode}, check=False, timeout=60)
    finally:
        os.close(write)
    return done.returncode, done.stderr


BODIES = {
    "it prints": "print('a line')",
    "it prints much": "print('a line' * 10_000)",
    "it flushes": "print('a line', flush=True)",
    "argparse prints, which swallows the error": "argparse.ArgumentParser('anchor').parse_args(['--help'])",
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_reader_that_went_is_no_failure_and_a_full_disk_is_one_sentence(body, mode):
    """With and without Python's buffer, which decides when the error comes."""
    assert ended(body, "closed", mode) == (0, "")
    assert ended(body, "/dev/full", mode) == (1, FULL)


STANDS = {
    "returned": "print('a line'); return 3",
    "by sys.exit": "print('a line'); sys.exit(3)",
}


@pytest.mark.parametrize("body", STANDS.values(), ids=STANDS.keys())
def test_a_code_of_its_own_stands(body):
    """A check that failed is still a failure where `head` reads its answer; a full disk is said all the same."""
    assert ended(body, "closed", {}) == (3, "")
    assert ended(body, "/dev/full", {}) == (3, FULL)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_an_error_of_another_file_is_left_alone(mode):
    """It has no filename either, as every failed write."""
    code, said = ended(OWN, "/dev/null", mode)
    assert (code, said.splitlines()[-1]) == (1, "OSError: [Errno 28] No space left on device")


def test_an_error_of_another_file_stays_one_beside_a_closed_pipe():
    code, said = ended(f"print('a line'); {OWN}", "closed", {})
    assert (code, said.splitlines()[-1]) == (1, "OSError: [Errno 28] No space left on device")


def test_standard_output_is_as_before(capsys):
    """Nothing of the check stays behind; the result passes through."""
    before = {**vars(sys.stdout)}
    assert output_checked("anchor")(lambda: print("a line") or 7)() == 7
    assert vars(sys.stdout) == before
    assert capsys.readouterr().out == "a line\n"


def test_without_standard_output_the_program_runs(monkeypatch):
    """As Python starts it where the descriptor is closed."""
    monkeypatch.setattr(sys, "stdout", None)
    assert output_checked("anchor")(lambda: 7)() == 7
