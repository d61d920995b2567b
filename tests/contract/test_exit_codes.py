"""docs/reference/exit-codes.md is printed from the tables of the programs; WINDLASS_GOLDEN=write rewrites it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import windlass_deepspeed.errors
from windlass import errors
from windlass.cli import main
from windlass_download import __main__ as download_cli
from windlass_kubectl import parser as plugin
from windlass_license import cli as license_cli
from windlass_operator import __main__ as operator_cli
from windlass_testbed.cases import every_case

PAGE = Path(__file__).parents[2] / "docs/reference/exit-codes.md"
PROGRAMS = {
    "windlass": [(row.code, row.last, row.meaning) for row in errors.EXIT_CODES],
    "kubectl windlass": [(row.code, None, row.meaning) for row in plugin.EXIT_CODES],
    "windlass-download": [(code, None, meaning) for code, meaning in download_cli.EXIT_CODES],
    "windlass-license": [(code, None, meaning) for code, meaning in license_cli.EXIT_CODES],
    "windlass-operator": [(code, None, meaning) for code, meaning in operator_cli.EXIT_CODES],
}
HEAD = """\
# Exit codes

<!-- Printed from the programs: WINDLASS_GOLDEN=write pytest tests/contract/test_exit_codes.py -->

Each program ends with one of these, and says one sentence on standard error unless it is 0. 0, 1, 2, 3 and 130 mean the
same everywhere: done, refused or failed, a wrong word, the model, interrupted. `windlass-deepspeed` has the codes of
`windlass`. A container's code stands in `status.failure.exitCode` too; a code from 128 on is 128 + a signal.

A program whose standard output cannot be written, to a full disk for example, says so and ends with 1. Where the reader
of a pipe has gone, as `head` goes, it ends in silence with 0.

| code | program | meaning |
| --- | --- | --- |
"""


def page() -> str:
    rows = sorted(
        (code, program, last, meaning) for program, found in PROGRAMS.items() for code, last, meaning in found
    )
    return HEAD + "".join(
        f"| {code}{f'–{last}' if last else ''} | `{program}` | {meaning} |\n" for code, program, last, meaning in rows
    )


def kinds(base: type[errors.WindlassError]) -> list[type[errors.WindlassError]]:
    return [base, *(kind for one in base.__subclasses__() for kind in kinds(one))]


def codes(kind: type[errors.WindlassError]) -> set[int]:
    if kind is errors.MemberLostError:
        return {kind.first_code, kind.first_code + kind.index_max}
    return {kind.exit_code}


def test_page_is_current() -> None:
    """What is printed now is what is committed."""
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        PAGE.write_text(page())
    assert page() == PAGE.read_text()


@every_case("kind", kinds(errors.WindlassError))
def test_every_error_ends_with_a_code_of_the_table(kind: type[errors.WindlassError]) -> None:
    """An error with another code has no row, and fails here."""
    listed = {code for row in errors.EXIT_CODES for code in (row.code, row.last or row.code)}
    assert codes(kind) <= listed


def test_no_row_without_a_cause() -> None:
    """Each code is an error's, or done, or interrupted."""
    found = {code for kind in kinds(errors.WindlassError) for code in codes(kind)} | {0, main.INTERRUPTED}
    assert found == {code for row in errors.EXIT_CODES for code in (row.code, row.last or row.code)}


def test_the_other_image_has_the_same_errors() -> None:
    assert windlass_deepspeed.errors.ModelError is errors.ModelError
    assert windlass_deepspeed.errors.UsageError is errors.UsageError


def test_the_same_code_means_the_same() -> None:
    """Usage is 2 and the model is 3 in every program that has them."""
    assert errors.UsageError.exit_code == plugin.USAGE.code == license_cli.WRONG == operator_cli.EXIT_USAGE
    assert operator_cli.EXIT_USAGE == download_cli.command.EXIT_USAGE
    assert (errors.ModelError.exit_code, main.INTERRUPTED) == (plugin.NOTHING_FITS.code, plugin.INTERRUPTED.code)


ANSWERS = (
    "kubectl-windlass completion bash",
    "kubectl_complete-windlass st",
    "windlass completion bash",
    "windlass-console --help",
    "windlass-deepspeed run --help",
    "windlass-download --help",
    "windlass-license completion bash",
    "windlass-operator version",
)


@pytest.mark.parametrize("line", ANSWERS)
def test_standard_output_that_cannot_be_written(line: str) -> None:
    """The installed program, without Python's buffer, where each print meets the error."""
    program, *words = line.split()
    command = [str(Path(sys.executable).with_name(program)), *words]
    named = "kubectl windlass" if program.startswith("kubectl") else program
    said = f"{named}: standard output cannot be written: "
    read, closed = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_WRONLY)
    for out, code, begins in ((closed, 0, ""), (full, 1, said)):
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, env=env, check=False, timeout=60)
        os.close(out)
        assert (done.returncode, done.stderr[: len(said)], done.stderr.count("\n")) == (code, begins, code)
