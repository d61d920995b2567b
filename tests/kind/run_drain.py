"""`make drain-groups`: `kubectl drain` of a node that holds a member of each of two replicas of a group.

The drain must take one replica and wait with the other until the first serves again. A row of the printed table is what
the API server said each second: which replicas had all their members ready. The cluster, the charts and the service
are brought up when they are not there; the namespace goes at the end.
"""

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import prepared_namespace
import run_group_kills
from windlass_testbed import cluster
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths, paths

NAMESPACE, SERVICE = "drain-groups", "duo"
LABELS = f"serving.windlass.dev/service={SERVICE},app.kubernetes.io/component=server"
REPLICA = "serving.windlass.dev/replica"
REPLICAS, SIZE = 2, 2
START_S, WAIT_S = 900.0, 60
"""How long the service may take to serve, and how long a drain asks again for what the budget refuses."""


def main() -> int:
    """Drain twice, with the return of the first replica between; 1 when two replicas were away at once."""
    where = paths()
    bring_up(where)
    node = cluster.WORKERS[-1]
    try:
        print(f"both replicas serve after {until_whole(where, REPLICAS):.0f} s", flush=True)
        first = drain(where, node)
        cluster.kubectl(where, "uncordon", node)
        print(f"both serve again {until_whole(where, REPLICAS):.0f} s after the node is back", flush=True)
    finally:
        cluster.kubectl(where, "uncordon", node)
        prepared_namespace.clear(where, NAMESPACE)
    print(f"fewest whole replicas at a time: {first}")
    return 0 if first == REPLICAS - 1 else 1


def bring_up(where: Paths) -> None:
    """The service in a namespace of its own."""
    prepared_namespace.prepare(where, NAMESPACE)
    body = {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {**run_group_kills.SERVICE, "replicas": REPLICAS},
    }
    cluster.kubectl(where, "apply", "-f", "-", stdin=json.dumps(body))


def drain(where: Paths, node: str) -> int:
    """Run kubectl's drain of the node, and watch; the fewest replicas that had all members ready meanwhile."""
    words = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={LABELS}")
    command = [where.bin / "kubectl", "--kubeconfig", where.kubeconfig, *words, f"--timeout={WAIT_S}s"]
    began, fewest, seen = time.monotonic(), REPLICAS, -1
    drained = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while drained.poll() is None:
        whole = len(whole_replicas(where))
        if whole != seen:
            print(f"{time.monotonic() - began:4.0f} s: {whole} of {REPLICAS} replicas whole", flush=True)
        fewest, seen = min(fewest, whole), whole
        time.sleep(0.5)
    assert drained.stdout
    for line in dict.fromkeys(drained.stdout.read().splitlines()):
        print(f"  kubectl: {line[:200]}")
    print(f"kubectl drain ended with {drained.returncode} after {time.monotonic() - began:.0f} s")
    return fewest


def whole_replicas(where: Paths) -> set[str]:
    """Replicas of which every member is ready and none is going."""
    counted: dict[str, int] = {}
    for pod in pods(where):
        ready = any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions", ()))
        if ready and "deletionTimestamp" not in pod["metadata"]:
            replica = pod["metadata"]["labels"][REPLICA]
            counted[replica] = counted.get(replica, 0) + 1
    return {replica for replica, members in counted.items() if members == SIZE}


def pods(where: Paths) -> list[dict[str, Any]]:
    """The members of all replicas."""
    found = cluster.kubectl(where, "-n", NAMESPACE, "get", "pods", "-l", LABELS, "-o", "json")
    rows: list[dict[str, Any]] = json.loads(found)["items"]
    return rows


def until_whole(where: Paths, replicas: int) -> float:
    """Seconds until so many replicas are whole; TimeoutError when it takes too long."""
    began = time.monotonic()
    while time.monotonic() < began + START_S:
        with suppress(BedError):
            if len(whole_replicas(where)) == replicas:
                return time.monotonic() - began
        time.sleep(1)
    raise TimeoutError(f"{replicas} whole replicas: not within {START_S:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
