"""The real helm, for the tests of both charts."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """The program from $WINDLASS_KUBE_BIN, else the test bed's, which builds it when it has to."""
    if folder := os.environ.get("WINDLASS_KUBE_BIN"):
        return Path(folder) / "helm"
    bed = [sys.executable, "-m", "windlass_testbed", "tool", "helm"]
    return Path(subprocess.run(bed, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def helm(helm_binary: Path, tmp_path: Path) -> Helm:
    """Run helm with a home of its own; `values` become a values file."""

    def run(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        environment = {**os.environ, "HOME": str(tmp_path)}
        command = [helm_binary, *words, "-f", file]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)

    return run
