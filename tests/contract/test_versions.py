"""Every program is found by the name that its distribution installs, and says its version by --version."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points

import pytest
import windlass_deepspeed.cli
import windlass_kubectl.__main__
import windlass_license.cli
import windlass_operator.__main__
from windlass.cli import main

PROGRAMS = {
    "windlass": main.main,
    "windlass-deepspeed": windlass_deepspeed.cli.main,
    "windlass-license": windlass_license.cli.main,
    "windlass-operator": windlass_operator.__main__.main,
    "kubectl-windlass": windlass_kubectl.__main__.main,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_version(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [name, "--version"])
    with redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit) as end:
        PROGRAMS[name]()
    assert (end.value.code or 0, out.getvalue().count("\n")) == (0, 1)
    assert re.search(r"\d+\.\d+\.\d+", out.getvalue())


SCRIPTS = [one for one in entry_points(group="console_scripts") if one.module.startswith("windlass")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.name)
def test_an_installed_program_leads_to_its_function(script: EntryPoint) -> None:
    """A module that moved would be missed by a user alone."""
    assert callable(script.load())


def test_every_program_is_installed() -> None:
    assert {*PROGRAMS, "kubectl_complete-windlass", "windlass-vllm"} <= {one.name for one in SCRIPTS}
