"""A real API server with the CRD of the code under test, and a user who has the rights of the role `edit` alone."""

from __future__ import annotations

import importlib.util
import secrets
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
NAMESPACE = "attack"
RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: editor}
rules:
  - {apiGroups: [serving.windlass.dev], resources: [llmservices, llmservices/status, llmservices/scale],
     verbs: [get, list, watch]}
  - {apiGroups: [serving.windlass.dev], resources: [llmservices, llmservices/scale],
     verbs: [create, update, patch, delete, deletecollection]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editor, namespace: attack}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: editor}
subjects: [{kind: User, name: editor, apiGroup: rbac.authorization.k8s.io}]
"""


def _load(path: Path) -> ModuleType:
    """A module of another test folder: pytest's importlib mode puts none on sys.path."""
    name = f"windlass_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of the API server, logged in as the editor."""
    from windlass_api.crd import schema

    folder = tmp_path_factory.mktemp("attacked")
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f"{token},editor,editor,\n")
    plane = _load(HERE.parents[1] / "apiserver" / "control_plane.py")
    with plane.running_api_server(folder) as server:
        server.kubectl("create", "namespace", NAMESPACE)
        server.kubectl("apply", "-f", "-", stdin=RIGHTS)
        server.install_crd(text=yaml.safe_dump(schema.crd()))
        context = ssl.create_default_context(cafile=str(server.ca_file))
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=server.url, verify=context, headers=headers, trust_env=False, timeout=60) as http:
            yield http
