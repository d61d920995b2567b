"""`make stop-engines`: stops the processes of an engine on the cluster and prints when the operator says so.

One service has one pod, the other one replica of two pods, of which the follower is stopped. Both have a request. The
cluster, the charts and the services are brought up when they are not there; the namespace goes at the end. Its words
are the services, else both.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import prepared_namespace
import run_group_kills
from windlass_testbed import cluster
from windlass_testbed.errors import BedError
from windlass_testbed.paths import Paths, paths

NAMESPACE = "stop-engines"
STALL_S = 20
LIMIT_S = 600.0
ONE = {
    "model": {"id": "demo", "source": {"pvc": {"claimName": "models", "path": "demo"}}},
    "resources": {"cpu": "300m", "memory": "3Gi"},
    "license": {"required": False},
}
SERVICES = {"one": ONE, "duo": run_group_kills.SERVICE}
STOPPED = {"one": "one-", "duo": "duo-0-1"}
"""How the name of the pod begins whose engine is stopped."""
ASK = """
import json, urllib.request
body = {"model": "demo", "prompt": "def add(a, b):", "max_tokens": 900, "ignore_eos": True}
head = {"Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8501/v1/completions", json.dumps(body).encode(), head))
"""
STOP = """
import os, pathlib, signal
names = {int(path.parent.name): path.read_text() for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
found = [pid for pid, name in names.items() if name.startswith("VLLM::")]
[os.kill(pid, signal.SIGSTOP) for pid in found]
print(len(found))
"""


def main(names: list[str]) -> int:
    """A row for each service; 1 when one did not come back with its reason."""
    where = paths()
    prepared_namespace.prepare(where, NAMESPACE)
    print("| stopped | EngineStalled after s | started again after s | Running after s |\n| --- | --- | --- | --- |")
    try:
        for name in names or SERVICES:
            stopped = STOPPED[name]
            print(f"| {name} | {' | '.join(f'{seconds:.0f}' for seconds in stop(where, name, stopped))} |", flush=True)
            kubectl(where, "delete", "llm", name)
    except TimeoutError as error:
        print(error)
        return 1
    finally:
        prepared_namespace.clear(where, NAMESPACE)
    return 0


def kubectl(where: Paths, *words: str) -> str:
    """In the namespace of the services."""
    return cluster.kubectl(where, "-n", NAMESPACE, *words)


def stop(where: Paths, name: str, stopped: str) -> list[float]:
    """Serve, ask, stop; the seconds until the reason, until each pod is started again, until it serves."""
    env = [{"name": "WINDLASS_STALL_TIMEOUT", "value": str(STALL_S)}]
    body = {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**SERVICES[name], "env": env},
    }
    cluster.kubectl(where, "apply", "-f", "-", stdin=json.dumps(body))
    until(lambda: reason(where, name) == "Running", f"{name} serves")
    before = {pod["metadata"]["name"]: restarts(pod) for pod in pods(where, name)}
    head, victim = min(before), next(pod for pod in before if pod.startswith(stopped))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(kubectl, where, "exec", head, "--", "python3", "-c", ASK)
        time.sleep(1)
        print(f"{kubectl(where, 'exec', victim, '--', 'python3', '-c', STOP).strip()} processes of {victim} stopped")
        began = time.monotonic()
        seen = [until(lambda: reason(where, name) == "EngineStalled", "the reason", began)]
        seen.append(until(lambda: all(restarts(pod) > before.get(pod["metadata"]["name"], -1)
                                      for pod in pods(where, name)), "a restart of each", began))  # fmt: skip
        seen.append(until(lambda: reason(where, name) == "Running", "it serves again", began))
        assert isinstance(asked.exception(), BedError), "the request was answered by a stopped engine"
    return seen


def pods(where: Paths, name: str) -> list[dict[str, Any]]:
    """The service's pods."""
    label = f"serving.windlass.dev/service={name},app.kubernetes.io/component=server"
    rows: list[dict[str, Any]] = json.loads(kubectl(where, "get", "pods", "-l", label, "-o", "json"))["items"]
    return rows


def restarts(pod: dict[str, Any]) -> int:
    """How often its container was started again."""
    return sum(int(row["restartCount"]) for row in pod["status"].get("containerStatuses", ()))


def reason(where: Paths, name: str) -> str:
    """Why the service is Ready, or is not."""
    rows = json.loads(kubectl(where, "get", "llm", name, "-o", "json")).get("status", {}).get("conditions", ())
    return next((row["reason"] for row in rows if row["type"] == "Ready"), "")


def until(look: Callable[[], bool], what: str, began: float | None = None) -> float:
    """The seconds since `began`, or since now, until it is so."""
    start = time.monotonic()
    while not look():
        if time.monotonic() > start + LIMIT_S:
            raise TimeoutError(f"not within {LIMIT_S:.0f} s: {what}")
        time.sleep(0.5)
    return time.monotonic() - (start if began is None else began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
