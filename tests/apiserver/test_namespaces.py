"""The operator with a list of namespaces on a real API server: it works there, and may and does nothing elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from windlass_operator.settings import Settings

sys.path.insert(0, str(Path(__file__).parent))

from operator_thread import operating
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

CHART = Path(__file__).resolve().parents[2] / "charts" / "windlass"
SERVICE = {
    "apiVersion": "serving.windlass.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "qwen"},
    "spec": {
        "model": {"id": "m", "source": {"pvc": {"claimName": "models", "path": "m"}}},
        "license": {"required": False},
    },
}


@pytest.fixture
def namespaces(apiserver, namespace) -> tuple[str, str, str]:
    """Three fresh namespaces; the last is nobody's."""
    names = (namespace, f"{namespace}-b", f"{namespace}-c")
    for name in names[1:]:
        apiserver.kubectl("create", "namespace", name)
    return names


@pytest.fixture
def login(apiserver, namespaces, tmp_path, monkeypatch) -> str:
    """The operator's login, with the rights that the chart gives for the first two; its account's full name."""
    helm = sys.modules[type(apiserver).__module__].find_binary("helm")
    watched = f"watchNamespaces={{{namespaces[0]},{namespaces[1]}}}"
    command = [
        helm,
        "template",
        "windlass",
        CHART,
        "-n",
        namespaces[0],
        "--set",
        watched,
        "--set",
        "crds.enabled=false",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    rights = [row for row in yaml.safe_load_all(done.stdout) if row and row["kind"] in kinds]
    apiserver.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    token = apiserver.kubectl("-n", namespaces[0], "create", "token", "windlass").stdout
    config = json.loads(apiserver.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return f"system:serviceaccount:{namespaces[0]}:windlass"


@contextmanager
def running(watched: tuple[str, ...]):
    """The operator in a thread, once it has all its lists."""
    settings = Settings("windlass/server", "1", "windlass/operator:1", watch_namespaces=watched, metrics_port=0,
                        health_port=0)  # fmt: skip
    with operating(settings):
        yield


def jobs(apiserver, namespace: str) -> list[str]:
    found = apiserver.get("jobs", "-n", namespace)["items"]
    return [item["metadata"]["name"] for item in found]


def test_two_namespaces_are_served_and_a_third_is_left_alone(apiserver, namespaces, login):
    """An inspect Job in each watched namespace, none in the third; and no right to make one there."""
    with running(namespaces[:2]):
        for name in namespaces:
            apiserver.kubectl("apply", "-n", name, "-f", "-", stdin=json.dumps(SERVICE))
        wait_until(lambda: all(jobs(apiserver, name) for name in namespaces[:2]), "a Job in each watched namespace")
        apiserver.kubectl("delete", "llm", "qwen", "-n", namespaces[1])
        assert jobs(apiserver, namespaces[0])
        assert jobs(apiserver, namespaces[2]) == []
    for name, answer in zip(namespaces, ("yes", "yes", "no"), strict=True):
        asked = ("auth", "can-i", "create", "deployments", "-n", name, f"--as={login}")
        assert apiserver.kubectl(*asked, check=False).stdout.strip() == answer
