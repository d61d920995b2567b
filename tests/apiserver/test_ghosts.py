"""An object deleted in the gap of a `410 Gone` does not stay in the operator's memory.

A real etcd is compacted while the operator's API server is away; another API server on the same etcd deletes meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver

CRD_FILE = Path(__file__).parents[2] / "crds" / "llmservices.serving.windlass.dev.yaml"
LOOK_S = 0.2
"""The operator answers an address ten times a second."""


def a_service(name: str) -> dict[str, object]:
    source = {"nfs": {"server": "10.0.0.12", "path": f"/models/{name}"}}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {"model": {"id": "m", "source": source}, "license": {"required": False}},
    }


def compact(etcd_url: str) -> None:
    """Make etcd forget everything before now."""

    def call(path: str, body: dict[str, object]) -> dict:
        request = urllib.request.Request(f"{etcd_url}{path}", json.dumps(body).encode(), method="POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=HANG_S) as answer:
            return json.loads(answer.read())

    revision = call("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    call("/v3/kv/compaction", {"revision": revision, "physical": True})


def services(port: int) -> float:
    """How many LLMServices the operator knows, by its own metric; -1 when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return -1
    return sum(float(line.split()[-1]) for line in lines if line.startswith("windlass_llmservices{"))


@pytest.fixture
def plane(apiserver):
    return sys.modules[type(apiserver).__module__]


def test_a_service_deleted_in_the_gap_is_forgotten(tmp_path, plane, operator, log):
    """The operator follows the first API server; its stream begins anew with 410, and the list names what is left."""
    (port,), (api_port,) = plane.free_ports(1), plane.free_ports(1)
    (tmp_path / "other").mkdir()
    with plane.running_etcd(tmp_path) as etcd_url:
        with plane.running_apiserver(tmp_path, etcd_url, port=api_port) as server:
            server.install_crd(CRD_FILE)
            running = operator(server.kubeconfig, port)
            for name in ("stays", "goes"):
                assert not server.apply(a_service(name)).returncode
            wait_until(lambda: services(port) == 2, "the operator knows both", look_s=LOOK_S)
        with plane.running_apiserver(tmp_path / "other", etcd_url) as other:
            other.kubectl("delete", "llmservice", "goes")
            other.kubectl("annotate", "llmservice", "stays", "changed=meanwhile")
            compact(etcd_url)
        with plane.running_apiserver(tmp_path, etcd_url, port=api_port):
            begun = time.monotonic()
            wait_until(lambda: services(port) == 1, "the end of the ghost", look_s=LOOK_S)
            seconds = time.monotonic() - begun
            assert running.poll() is None
    assert "the watch of LLMService begins anew: too old resource version" in log.read_text()
    print(f"the ghost lived {seconds:.1f} s after the API server's return")
