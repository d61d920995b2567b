"""Fixtures for tests against a real API server: one server a session, one namespace a test."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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
def load_module() -> Callable[[str], ModuleType]:
    """Loads a module beside this file by its name."""
    return _load


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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the operator writes."""
    return tmp_path / "operator.log"


@pytest.fixture
def operator(log) -> Iterator[Callable[[Path, int], subprocess.Popen[bytes]]]:
    """Starts the operator; it is stopped at the end."""
    with ExitStack() as stack:

        def start(kubeconfig: Path, port: int) -> subprocess.Popen[bytes]:
            env = {
                **os.environ,
                "KUBECONFIG": str(kubeconfig),
                "WINDLASS_SERVER_IMAGE": "windlass/server",
                "WINDLASS_SERVER_VERSION": "1.2",
                "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2",
                "WINDLASS_METRICS_PORT": str(port),
                "WINDLASS_HEALTH_PORT": "0",
            }
            out = stack.enter_context(log.open("wb"))
            command = [sys.executable, "-m", "windlass_operator", "run"]
            running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)
            stack.callback(running.wait, 20)
            stack.callback(running.terminate)
            return running

        yield start


@pytest.fixture(scope="session")
def at(load_module: Callable[[str], ModuleType]) -> ModuleType:
    """What the console's tests share."""
    return load_module("console_process")


@pytest.fixture(scope="session")
def url(apiserver, at, load_module, tmp_path_factory) -> Iterator[str]:
    """The console in a process of its own."""
    port = load_module("control_plane").free_ports(1)[0]
    log = tmp_path_factory.mktemp("console") / "log"
    with at.running_console(apiserver, port, log) as found:
        yield found


@pytest.fixture
def editor(apiserver, at, url, namespace) -> Iterator[object]:
    """Signed in, with the right to change the namespace's services."""
    with at.signed_in(url, at.a_token(apiserver, namespace, "editor", at.EDITOR)) as http:
        yield http


@pytest.fixture
def viewer(apiserver, at, url, namespace) -> Iterator[object]:
    """Signed in, with the right to look at them alone."""
    with at.signed_in(url, at.a_token(apiserver, namespace, "viewer", at.VIEWER)) as http:
        yield http


@pytest.fixture
def admin(apiserver, at, url) -> Iterator[object]:
    """Signed in with every right."""
    with at.signed_in(url, apiserver.token) as http:
        yield http
