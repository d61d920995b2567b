"""Fixtures for tests against a real API server: one server a session, one namespace a test."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CRD_FILE = REPOSITORY / "crds" / "llmservices.serving.windlass.dev.yaml"
_numbers = count(1)


def _load(name: str) -> ModuleType:
    """A module beside this file: pytest's importlib mode puts no test folder on sys.path."""
    full = f"windlass_tests_apiserver_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HERE / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@pytest.fixture(scope="session")
def bare_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A real API server without our CRD."""
    with _load("control_plane").running_api_server(tmp_path_factory.mktemp("control-plane")) as server:
        yield server


@pytest.fixture(scope="session")
def apiserver(bare_apiserver):
    """A real API server that serves LLMService: .url, .token, .ca_file, .kubeconfig, .kubectl(*arguments)."""
    bare_apiserver.install_crd(CRD_FILE)
    return bare_apiserver


@pytest.fixture
def namespace(apiserver) -> str:
    """A fresh namespace."""
    name = f"test-{next(_numbers)}"
    apiserver.kubectl("create", "namespace", name)
    return name
