"""A real API server for the attacks of one module, behind a CRD that lets poison in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import poison
from real_operator import CRD_FILE, control_plane


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("poison")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Any]:
    with control_plane.running_api_server(folder) as server:
        server.install_crd(text=poison.unguarded_crd(CRD_FILE.read_text()))
        (folder / "operator.kubeconfig").write_text(server.kubeconfig.read_text())
        yield server
