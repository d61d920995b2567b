"""The real helm, for the tests of both charts. What was rendered once is not rendered again."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture(scope="session")
def helm_binary() -> Path:
    """The program from $WINDLASS_KUBE_BIN, else the test cluster's, which builds it when it has to."""
    if folder := os.environ.get("WINDLASS_KUBE_BIN"):
        return Path(folder) / "helm"
    bed = [sys.executable, "-m", "windlass_testbed", "tool", "helm"]
    return Path(subprocess.run(bed, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


Helm = Callable[..., subprocess.CompletedProcess[str]]


def documents(text: str) -> list[Any]:
    """The objects in a text of YAML. libyaml reads it: the CRD in a chart takes PyYAML's own reader 0.6 s."""
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


@pytest.fixture(scope="session")
def helm(helm_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Run helm with a home of its own; `values` become a values file. The same words and values run once."""
    folder = tmp_path_factory.mktemp("helm")
    file, environment = folder / "values.yaml", {**os.environ, "HOME": str(folder)}

    @cache
    def ask(words: tuple[str, ...], values: str) -> subprocess.CompletedProcess[str]:
        file.write_text(values)
        command = [helm_binary, *words, "-f", file]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)

    def run(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        return ask(words, yaml.safe_dump(values or {}))

    return run
