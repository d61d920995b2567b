"""Poison of one namespace on a real API server, with the real operator process: it lives, reads on, and says why.

Findings 1 and 13, behind a CRD that lets both in. `WINDLASS_ATTACK_LONG` creates the ninety large services of the
finding, else a few.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from windlass_testbed.waiting import HANG_S, wait_until

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "operator" / "bench" / "scale"), str(Path(__file__).parent)]

import poison  # noqa: E402 - the paths above come first
from bed import CRD_FILE, Bed, control_plane, operator, process  # noqa: E402
from measure import Process  # noqa: E402

pytestmark = pytest.mark.apiserver
GROUP = "/apis/serving.windlass.dev/v1alpha1"
RSS_MIB_MAX = 512.0
LARGE = 90 if os.environ.get("WINDLASS_ATTACK_LONG") else 6
DEEP = 3


class Cluster:
    """The API server, as its administrator."""

    def __init__(self, api: Any) -> None:
        head = {"Authorization": f"Bearer {api.token}"}
        trust = ssl.create_default_context(cafile=str(api.ca_file))
        self.http = httpx2.Client(base_url=api.url, verify=trust, headers=head, timeout=60, trust_env=False)

    def create(self, path: str, body: dict[str, Any]) -> bool:
        """Whether the API server took it; what it refuses has done no harm."""
        head = {"Content-Type": "application/json"}
        return bool(self.http.post(path, content=poison.written(body), headers=head).is_success)

    def reasons(self, namespace: str) -> dict[str, str]:
        """The reason of Progressing, by service."""
        from windlass_operator.cluster import decode  # the poison is too deep for Python's own parser

        raw = self.http.get(f"{GROUP}/namespaces/{namespace}/llmservices").raise_for_status().content
        found = {}
        for row in (decode.manifest(bytes(one)) for one in decode.page(raw).items):
            conditions = (row.get("status") or {}).get("conditions") or []
            found[row["metadata"]["name"]] = next((c["reason"] for c in conditions if c["type"] == "Progressing"), "")
        return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("poison")


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[Any]:
    with control_plane.running_api_server(folder) as server:
        server.install_crd(text=poison.unguarded_crd(CRD_FILE.read_text()))
        (folder / "operator.kubeconfig").write_text(server.kubeconfig.read_text())
        yield server


@contextmanager
def running(folder: Path, api: Any) -> Iterator[tuple[Process, int, int]]:
    """The operator process and its ports: of /healthz, of /readyz."""
    port, health = control_plane.free_ports(2)
    command, env = operator(Bed(folder, api), port, health)
    with process(command, folder / "operator.log", env) as alive:
        yield alive, health, port


def answers(port: int, path: str) -> bool:
    try:
        return bool(httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=HANG_S).is_success)
    except httpx2.HTTPError:
        return False


def has_job(cluster: Cluster, namespace: str) -> bool:
    """Whether the operator has come so far as to look at a model."""
    jobs = cluster.http.get(f"/apis/batch/v1/namespaces/{namespace}/jobs").raise_for_status().json()["items"]
    return bool(jobs)


def test_poison_costs_nobody_else(api, folder, request):
    """While the operator runs, and again after a restart; every poisoned service says what is wrong with it."""
    cluster, taken = Cluster(api), []
    request.addfinalizer(cluster.http.close)
    for name in ("bad", "good", "later"):
        assert cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        bodies = [poison.deep(f"deep-{n}") for n in range(DEEP)] + [poison.large(f"large-{n}") for n in range(LARGE)]
        for body in bodies:
            assert cluster.create(f"{GROUP}/namespaces/bad/llmservices", body)
            taken.append(body["metadata"]["name"])
        assert cluster.create(f"{GROUP}/namespaces/good/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "good"), "the healthy service is looked at")
        assert alive.alive()
        assert answers(health, "/healthz")
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready beside the poison")
        assert cluster.create(f"{GROUP}/namespaces/later/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "later"), "a healthy service is looked at after a restart")
        wait_until(
            lambda: all(cluster.reasons("bad")[name] == "SpecTooLarge" for name in taken),
            "every poisoned service that was taken says SpecTooLarge",
        )
        assert alive.alive()
        assert answers(health, "/healthz")
        peak = alive.memory_mib("VmHWM")
        print(json.dumps({"poisoned": len(taken), "of": LARGE + DEEP, "peak_mib": round(peak)}))
        assert peak < RSS_MIB_MAX
