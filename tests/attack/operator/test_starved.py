"""Attacks on all namespaces without poison in a spec: a large number in an object, half requests at the ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event

import poison
import pytest
from real_operator import GROUP, RSS_MIB_MAX, Cluster, Process, answers, has_job, running
from windlass_testbed.attacks import record_at_most
from windlass_testbed.probing import FAILURES_MAX, probing, seconds_of
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver
REPLICAS = 20_000_000
FILES, HALF_REQUESTS = 1_024, 1_100
"""Open files that a plain container runtime allows, and more connections than that."""
ADDRESSES = 30
FLOODERS = 100
JOB_S = 2.0
"""Seconds until another namespace's new service has its Job."""


@pytest.fixture(scope="module")
def cluster(api):
    found = Cluster(api)
    for name in ("bad", "good", "later", "flooded"):
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


@contextmanager
def judged(attack: str, cluster: Cluster, namespace: str, alive: Process, health: int, port: int) -> Iterator[None]:
    """Beside the attack in the block both probes answer and a service of another namespace gets its Job."""
    with (
        probing(lambda: answers(health, "/healthz")) as healthz,
        probing(lambda: answers(port, "/readyz")) as readyz,
    ):
        yield
        assert cluster.create(f"{GROUP}/namespaces/{namespace}/llmservices", poison.service("a"))
        job_s = seconds_of(lambda: wait_until(lambda: has_job(cluster, namespace), "a healthy service is looked at"))
    assert max(healthz.longest_row, readyz.longest_row) <= FAILURES_MAX, "the kubelet would act"
    peak = alive.memory_mib("VmHWM")
    healthz.record(__file__, f"{attack}: /healthz of the operator")
    readyz.record(__file__, f"{attack}: /readyz of the operator")
    record_at_most(__file__, f"{attack}: Job of another namespace's service", JOB_S, job_s, "s")
    record_at_most(__file__, f"{attack}: memory of the operator", RSS_MIB_MAX, peak, "MiB")
    assert peak < RSS_MIB_MAX


def test_a_number_of_an_object_is_no_work(api, folder: Path, cluster):
    """A StatefulSet of twenty million replicas counts as one replica of the service."""
    with running(folder, api) as (alive, health, port):
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        with judged("C1, a StatefulSet of 20,000,000 replicas", cluster, "good", alive, health, port):
            assert cluster.create(f"{GROUP}/namespaces/bad/llmservices", poison.service("a"))
            path = f"{GROUP}/namespaces/bad/llmservices/a"
            uid = cluster.http.get(path).raise_for_status().json()["metadata"]["uid"]
            assert cluster.create("/apis/apps/v1/namespaces/bad/statefulsets", a_stateful_set("a", uid))
            wait_until(
                lambda: (cluster.http.get(path).json().get("status") or {}).get("replicas") == 1,
                "the service counts the StatefulSet as one replica",
            )


def test_half_requests_take_nothing_from_others(api, folder: Path, cluster):
    """From one address and from many, at both ports."""
    few_files = ("prlimit", f"--nofile={FILES}:{FILES}")
    with running(folder, api, *few_files) as (alive, health, port), ExitStack() as stack:
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        with judged(f"H1, {HALF_REQUESTS:,} half requests", cluster, "later", alive, health, port):
            for number in range(HALF_REQUESTS):
                host = f"127.0.2.{number % ADDRESSES + 1 if number % 2 else 1}"
                half = socket.create_connection(("127.0.0.1", (port, health)[number % 2]), source_address=(host, 0))
                stack.callback(half.close)
                half.send(b"GET /metrics HTTP/1.1\r\nhost: ")


def test_figures_asked_without_end_take_nothing_from_others(api, folder: Path, cluster):
    """L3: 100 connections that ask as fast as answers come; the address of the probes has a rate of its own."""
    with running(folder, api) as (alive, health, port), ExitStack() as stack:
        wait_until(lambda: answers(port, "/readyz"), "the operator is ready")
        with judged(f"L3, /metrics asked by {FLOODERS} connections", cluster, "flooded", alive, health, port):
            stack.enter_context(flood(port))


@contextmanager
def flood(port: int) -> Iterator[None]:
    """Ask for figures meanwhile, on connections that open again when they are ended."""
    stop, request = Event(), b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n"

    def ask(number: int) -> None:
        where = (f"127.0.2.{number % ADDRESSES + 1}", 0)
        while not stop.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), HANG_S, where) as line:
                line.sendall(request)
                while not stop.is_set() and line.recv(65536):
                    line.sendall(request)

    with ThreadPoolExecutor(FLOODERS) as pool:
        done = [pool.submit(ask, number) for number in range(FLOODERS)]
        try:
            yield
        finally:
            stop.set()
    assert [one.exception() for one in done] == [None] * FLOODERS
