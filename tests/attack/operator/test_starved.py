"""Attacks on all namespaces without poison in a spec: a large number in an object, half requests at the ports."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path

import poison
import pytest
from real_operator import GROUP, RSS_MIB_MAX, Cluster, answers, has_job, running
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver
REPLICAS = 20_000_000
FILES, HALF_REQUESTS = 1_024, 1_100
"""Open files that a plain container runtime allows, and more connections than that."""
ADDRESSES = 30


@pytest.fixture(scope="module")
def cluster(api):
    found = Cluster(api)
    for name in ("bad", "good", "later"):
        assert found.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield found
    found.http.close()


def a_stateful_set(owner: str, uid: str) -> dict:
    """A replica over very many nodes, as whoever may edit the namespace's StatefulSets writes it."""
    labels = {"app.kubernetes.io/name": owner, "app.kubernetes.io/managed-by": "windlass"}
    labels |= {"serving.windlass.dev/service": owner, "app.kubernetes.io/component": "server"}
    reference = {"apiVersion": "serving.windlass.dev/v1alpha1", "kind": "LLMService", "name": owner, "uid": uid}
    container = {"name": "server", "image": "none"}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": f"{owner}-0", "labels": labels, "ownerReferences": [reference | {"controller": True}]},
        "spec": {
            "replicas": REPLICAS,
            "serviceName": owner,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_a_number_of_an_object_is_no_work(api, folder: Path, cluster):
    """A StatefulSet of twenty million replicas counts as one replica of the service."""
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        assert cluster.create(f"{GROUP}/namespaces/bad/llmservices", poison.service("a"))
        path = f"{GROUP}/namespaces/bad/llmservices/a"
        uid = cluster.http.get(path).raise_for_status().json()["metadata"]["uid"]
        assert cluster.create("/apis/apps/v1/namespaces/bad/statefulsets", a_stateful_set("a", uid))
        wait_until(
            lambda: (cluster.http.get(path).json().get("status") or {}).get("replicas") == 1,
            "the service counts the StatefulSet as one replica",
        )
        assert cluster.create(f"{GROUP}/namespaces/good/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "good"), "a healthy service is looked at")
        assert answers(health, "/healthz")
        assert answers(port, "/readyz")
        assert alive.memory_mib("VmHWM") < RSS_MIB_MAX


def test_half_requests_take_nothing_from_others(api, folder: Path, cluster):
    """From one address and from many, at both ports."""
    few_files = ("prlimit", f"--nofile={FILES}:{FILES}")
    with running(folder, api, *few_files) as (alive, health, port), ExitStack() as stack:
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        for number in range(HALF_REQUESTS):
            host = f"127.0.2.{number % ADDRESSES + 1 if number % 2 else 1}"
            half = socket.create_connection(("127.0.0.1", (port, health)[number % 2]), source_address=(host, 0))
            stack.callback(half.close)
            half.send(b"GET /metrics HTTP/1.1\r\nhost: ")
        assert answers(health, "/healthz")
        assert answers(port, "/readyz")
        assert cluster.create(f"{GROUP}/namespaces/later/llmservices", poison.service("a"))
        wait_until(lambda: has_job(cluster, "later"), "a new service is looked at")
        assert alive.memory_mib("VmHWM") < RSS_MIB_MAX
