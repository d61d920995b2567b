"""`make test-autoscale`: KEDA scales a service from one replica to three and back, by Prometheus, under load.

The ScaledObject is the one that the chart makes. On the way up there are GPUs for two replicas only, until some are
freed: the service then says what is missing, and the two serve on. No answer is cut, neither on the way up nor down.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from windlass_testbed import charts, deploy, keda
from windlass_testbed.forward import forward
from windlass_testbed.paths import REPOSITORY

sys.path.insert(0, str(Path(__file__).parent))

from strangers import Asker, listener

NAME = "scaled"
GPU = "nvidia.com/gpu"
CLIENT = (Path(__file__).parent / "load_client.py").read_text()
MOST = 3
REQUESTS = 4
"""For each replica: twelve at a time want three."""
UP_S, DOWN_S = 900.0, 180.0
Load: TypeAlias = Callable[[int, float], "tuple[Future[Any], Callable[[], None]]"]


class Diary:
    """What was seen when, in seconds since the load began."""

    def __init__(self, bed: Any, namespace: str) -> None:
        self.bed, self.namespace, self.rows = bed, namespace, list[tuple[float, str]]()
        self.began = time.monotonic()

    def note(self, text: str) -> None:
        if not self.rows or self.rows[-1][1] != text:
            self.rows.append((time.monotonic() - self.began, text))

    def look(self) -> tuple[int, int, str]:
        """Replicas that are wanted and ready, and the reason of the condition about the workload."""
        found = self.bed.get(self.namespace, "llm", NAME)
        status = found.get("status", {})
        said = {row["type"]: row for row in status.get("conditions", ())}
        wanted, ready = found["spec"]["replicas"], status.get("readyReplicas", 0)
        reason = said.get("WorkloadReady", {}).get("reason", "")
        self.note(f"{wanted} wanted, {ready} ready, {reason}")
        return wanted, ready, f"{reason}: {said.get('WorkloadReady', {}).get('message', '')}"

    def until(self, what: str, met: Callable[[int, int, str], bool], seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            seen = self.look()
            if met(*seen):
                return seen[2]
            time.sleep(1)
        self.print()
        print(self.bed.kubectl("-n", self.namespace, "get", "hpa,pods,scaledobjects", "-o", "wide"))
        print(self.bed.kubectl("-n", self.namespace, "describe", "hpa"))
        pytest.fail(f"waited {seconds:.0f} s for {what}")

    def print(self) -> None:
        print("\n| s | seen |\n| --- | --- |")
        print("\n".join(f"| {at:.0f} | {text} |" for at, text in self.rows))


@pytest.fixture(scope="module")
def scaler(bed, namespace) -> Iterator[None]:
    with keda.installed(bed.paths, namespace, NAME):
        yield


@pytest.fixture(scope="module")
def service(bed, namespace, scaler) -> str:
    """One replica with one GPU, that works on two requests at a time."""
    bed.apply(namespace, NAME, resources={"gpus": 1, "cpu": "200m", "memory": "3Gi"}, license={"required": False},
              engine={"maxNumSeqs": 2}, env=deploy.UNBOUND)  # fmt: skip
    bed.ready(namespace, NAME, timeout_s=400)
    return NAME


@pytest.fixture
def one_gpu_left(bed, namespace, service) -> Iterator[Callable[[], None]]:
    """All GPUs but one are taken by others; what it yields frees them."""
    free = free_gpus(bed)
    keep = 1
    for number, (node, count) in enumerate(sorted(free.items())):
        taken = count - min(keep, count)
        keep -= count - taken
        if taken:
            bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(filler(bed, number, node, taken)))
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod", "-l", "app=filler", "--timeout=90s")
    words = ("-n", namespace, "delete", "pod", "-l", "app=filler", "--ignore-not-found", "--wait=false")
    yield lambda: bed.kubectl(*words)
    bed.kubectl(*words)


def filler(bed, number: int, node: str, gpus: int) -> dict[str, Any]:
    pod = listener(f"filler-{number}", bed.images["server-cpu"], [8080], {"app": "filler"})
    pod["spec"]["nodeName"] = node
    pod["spec"]["containers"][0] |= {"imagePullPolicy": "Never", "resources": {"limits": {GPU: str(gpus)}}}
    return pod


def free_gpus(bed) -> dict[str, int]:
    """GPUs of each node that no pod has."""
    nodes = json.loads(bed.kubectl("get", "nodes", "-o", "json"))["items"]
    free = {node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes}
    for pod in json.loads(bed.kubectl("get", "pods", "-A", "-o", "json"))["items"]:
        if pod["status"].get("phase") not in ("Succeeded", "Failed") and pod["spec"].get("nodeName"):
            held = (one.get("resources", {}).get("limits", {}).get(GPU, 0) for one in pod["spec"]["containers"])
            free[pod["spec"]["nodeName"]] -= sum(int(count) for count in held)
    return free


def scaled_object(bed, namespace: str) -> str:
    """The chart's own, for this service."""
    wish = {"name": NAME, "namespace": namespace, "maxReplicas": MOST, "requests": REQUESTS, "pollingSeconds": 5,
            "idleSeconds": 20}  # fmt: skip
    values = json.dumps({"autoscaling": {"services": [wish]}})
    file = bed.paths.run / "autoscale-values.json"
    file.write_text(values)
    words = ("template", "windlass", str(charts.CHARTS / "windlass"), "--show-only", "templates/autoscaling.yaml")
    return bed.helm(*words, "--values", str(file))


@pytest.fixture
def load(bed, namespace, service) -> Iterator[Load]:
    """Starts streams, so many at a time, from a pod that is no part of the service; gives their outcome and an end."""
    pod = listener("client", bed.images["server-cpu"], [8080])
    pod["spec"]["containers"][0] |= {"imagePullPolicy": "Never", "resources": {"requests": {"cpu": "100m"}}}
    bed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(pod))
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/client", "--timeout=120s")
    asker = Asker(bed.paths, namespace, "client")
    place = {"place": f"{service}.{namespace}.svc", "port": 8501, "tokens": 100}

    def begin(count: int, seconds: float) -> tuple[Future[Any], Callable[[], None]]:
        stop = f"/tmp/stop-{count}"
        told = {**place, "atATime": count, "seconds": seconds, "stop": stop}
        outcome = pool.submit(asker.run, CLIENT, json.dumps(told))
        return outcome, lambda: bed.kubectl("-n", namespace, "exec", "client", "--", "touch", stop)

    with ThreadPoolExecutor(2) as pool:
        yield begin


def test_replicas_follow_the_load_and_no_answer_is_cut(bed, namespace, service, one_gpu_left, load):
    """One, two and a wish for a third that has no GPU, three, and one again."""
    bed.kubectl("apply", "-f", "-", stdin=scaled_object(bed, namespace))
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"scaledobject/{NAME}", "--timeout=60s")
    diary = Diary(bed, namespace)
    heavy, end_heavy = load(MOST * REQUESTS, UP_S)
    said = diary.until("a third replica that has no GPU", lambda wanted, ready, text: (
        wanted == MOST and ready == 2 and text.startswith("InsufficientGpus")), UP_S / 2)  # fmt: skip
    diary.note(said)
    one_gpu_left()
    diary.note("the GPUs are freed")
    diary.until("three replicas", lambda wanted, ready, _: ready == MOST, UP_S / 2)
    end_heavy()
    outcome = heavy.result(timeout=120)
    diary.note(f"{MOST * REQUESTS} requests at a time end: {outcome['counts']}")
    light, end_light = load(1, DOWN_S)
    diary.until("one replica", lambda wanted, ready, _: wanted == ready == 1, DOWN_S)
    bed.wait("one pod", lambda: len(_pods(bed, namespace)) == 1, 90)
    diary.note("one pod is left")
    end_light()
    rest = light.result(timeout=120)
    diary.note(f"one request at a time ends: {rest['counts']}")
    diary.print()
    if picture := os.environ.get("WINDLASS_PICTURE"):
        draw(bed, picture)
    assert list(outcome["counts"]) == ["whole"], outcome
    assert list(rest["counts"]) == ["whole"], rest


def draw(bed, picture: str) -> None:
    """The chart's dashboard of services in these minutes, for the docs."""
    script = REPOSITORY / "tools/docs/draw_dashboard.py"
    with forward(bed.paths, "monitoring", "svc/prometheus-operated", 9090) as url:
        words = [
            "run",
            "--quiet",
            "--no-project",
            "--with",
            "matplotlib==3.11.2",
            script,
            "services",
            url,
            picture,
            "10",
        ]
        subprocess.run([Path(sys.executable).parent / "uv", *words], check=True)


def _pods(bed, namespace: str) -> list[Any]:
    label = f"serving.windlass.dev/service={NAME},app.kubernetes.io/component=server"
    return bed.items(namespace, "pods", "-l", label)
