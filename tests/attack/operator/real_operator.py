"""The operator process on a real API server, as the attacks' tests use it."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from windlass_testbed.waiting import HANG_S

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "operator" / "bench" / "scale"), str(Path(__file__).parent)]

import poison  # noqa: E402 - the paths above come first
from bed import CRD_FILE, Bed, control_plane, operator, process  # noqa: E402
from measure import Process  # noqa: E402

__all__ = ["CRD_FILE", "Process", "control_plane"]
GROUP = "/apis/serving.windlass.dev/v1alpha1"
RSS_MIB_MAX = 512.0
"""The chart's limit of the operator's container."""


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


@contextmanager
def running(folder: Path, api: Any, *before: str) -> Iterator[tuple[Process, int, int]]:
    """The operator process, started by the command `before`, and its ports: of /healthz, of /readyz."""
    port, health = control_plane.free_ports(2)
    command, env = operator(Bed(folder, api), port, health)
    with process([*before, *command], folder / "operator.log", env) as alive:
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
