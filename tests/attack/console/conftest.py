"""The console as a process before a real API server, and users of different rights."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx2
import pytest

from ..guard.attacks import Target

REPOSITORY = Path(__file__).resolve().parents[3]
CRD_FILE = REPOSITORY / "crds" / "llmservices.serving.windlass.dev.yaml"
_numbers = count(1)


def _load(name: str) -> ModuleType:
    """A module of the API-server tests: pytest's importlib mode puts no test folder on sys.path."""
    full = f"windlass_tests_apiserver_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, REPOSITORY / "tests" / "apiserver" / f"{name}.py")
        assert spec and spec.loader
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@dataclass(frozen=True)
class Attacked:
    """A console, the API server behind it, and new users."""

    target: Target
    apiserver: Any
    shared: ModuleType

    @property
    def url(self) -> str:
        return self.target.url

    def namespace(self) -> str:
        """A fresh one."""
        name = f"attack-{next(_numbers)}"
        self.apiserver.kubectl("create", "namespace", name)
        return name

    def token(self, namespace: str, rules: list[dict[str, Any]] | None = None) -> str:
        """The token of a new user, who has these rights in the namespace; by default an editor's."""
        name = f"user-{next(_numbers)}"
        return str(self.shared.a_token(self.apiserver, namespace, name, rules or self.shared.EDITOR))

    def apply(self, document: dict[str, Any]) -> None:
        """As the administrator."""
        done = self.apiserver.apply(document)
        assert done.returncode == 0, done.stderr

    def service(self, namespace: str, name: str = "qwen", **spec: object) -> dict[str, Any]:
        """Create one as the administrator."""
        document = self.shared.a_service(name, **spec)
        document["metadata"]["namespace"] = namespace
        self.apply({"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", **document})
        return document


@pytest.fixture(scope="session")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real API server with the CRD."""
    with _load("control_plane").running_api_server(tmp_path_factory.mktemp("control-plane")) as server:
        server.install_crd(CRD_FILE)
        yield server


@pytest.fixture(scope="session")
def start(apiserver: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Attacked]]:
    """Starts a console with further options."""
    shared, plane = _load("console_process"), _load("control_plane")
    with ExitStack() as stack:

        def started(*options: str) -> Attacked:
            port = plane.free_ports(1)[0]
            log = tmp_path_factory.mktemp("console") / "log"
            url = stack.enter_context(shared.running_console(apiserver, port, log, *options))
            return Attacked(Target(url, pid=process_of(port)), apiserver, shared)

        yield started


@pytest.fixture(scope="session")
def console(start: Callable[..., Attacked]) -> Attacked:
    """The console at the root of its host."""
    return start()


def process_of(port: int) -> int:
    """The id of the console's process, by its port."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and f"--port\0{port}\0".encode() in _command(entry):
            return int(entry.name)
    raise AssertionError("the console's process is not there")


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def signed_in(console: Attacked) -> Iterator[Callable[[str], httpx2.Client]]:
    """A browser with the cookie of a token."""
    with ExitStack() as stack:
        yield lambda token: stack.enter_context(console.shared.signed_in(console.url, token))
