"""The corpus's place without a cluster: a real API server and etcd as processes, and the whole operator in a thread."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

from fault_bed import Bed

APISERVER = Path(__file__).parents[2] / "apiserver"
CRD_FILE = Path(__file__).parents[3] / "crds" / "llmservices.serving.windlass.dev.yaml"


def load(name: str) -> ModuleType:
    """A module of the API server's tests, by path."""
    full = f"windlass_tests_apiserver_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, APISERVER / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


@contextmanager
def api_bed(folder: Path, namespace: str = "faults") -> Iterator[Bed]:
    """A namespace of an API server of its own, with the operator at work in it."""
    with load("control_plane").running_api_server(folder) as server:
        server.install_crd(CRD_FILE)
        with on_server(server, namespace) as bed:
            yield bed


@contextmanager
def on_server(server: object, namespace: str) -> Iterator[Bed]:
    """The same on an API server that runs already."""

    def kubectl(*words: str, stdin: str | None = None) -> str:
        return str(server.kubectl(*words, stdin=stdin).stdout)  # type: ignore[attr-defined]

    kubectl("create", "namespace", namespace)
    kubeconfig = str(server.kubeconfig)  # type: ignore[attr-defined]
    with mock.patch.dict(os.environ, {"KUBECONFIG": kubeconfig}), load("test_operator").running_operator(namespace):
        yield Bed(kubectl, namespace, clocked=False)
