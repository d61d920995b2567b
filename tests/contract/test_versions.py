"""Every program says its version by --version."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

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
