"""Drains of nodes with groups: Kubernetes' disruption controller and `kubectl drain` take one replica at a time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any

import pytest
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.disruption import disruption_budget
from windlass_operator.manifests.group import GroupShape, group_objects
from windlass_operator.manifests.pod import PodShape

sys.path.insert(0, str(Path(__file__).parent))

from control_plane import ApiServer, find_binary, free_ports
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver
SPACE = "drained"
NODES = ("east", "west")
DRAIN_S = 8  # kubectl asks again every 5 s for what was refused


@dataclass(frozen=True)
class Bed:
    """The API server with real controllers; the test plays scheduler and kubelet."""

    server: ApiServer

    def pods(self) -> dict[str, dict[str, Any]]:
        rows = self.server.get("pods", "-n", SPACE)["items"]
        return {row["metadata"]["name"]: row for row in rows}

    def going(self) -> set[str]:
        """Pods that were evicted and have not ended."""
        return {name for name, pod in self.pods().items() if "deletionTimestamp" in pod["metadata"]}

    def allowed(self) -> int:
        """Evictions that the budget allows now; -1 while the controller has not seen its pods."""
        budget = self.server.get("poddisruptionbudget", "duo", "-n", SPACE)
        status = budget.get("status", {})
        return status["disruptionsAllowed"] if status.get("expectedPods") == len(NODES) * 2 else -1

    def place(self, pod: str, node: str) -> None:
        """What the scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        path = f"/api/v1/namespaces/{SPACE}/pods/{pod}/binding"
        self.server.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def tell(self, pod: str, *, ready: bool) -> None:
        """What the kubelet reports of a pod whose container runs."""
        word = "True" if ready else "False"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": word}]}
        patch = json.dumps({"status": status})
        self.server.kubectl("patch", "pod", pod, "-n", SPACE, "--subresource=status", "-p", patch)

    def end(self, pod: str) -> None:
        """The kubelet's last word of an evicted pod: it is gone, and its StatefulSet makes another."""
        uid = self.pods()[pod]["metadata"]["uid"]
        self.server.kubectl("delete", "pod", pod, "-n", SPACE, "--force", "--grace-period=0")
        wait_for("the new pod", lambda: self.pods().get(pod, {"metadata": {}})["metadata"].get("uid", uid) != uid)

    def drain(self, node: str) -> str:
        """`kubectl drain`, stopped after a while; what it said."""
        words = ("drain", node, f"--timeout={DRAIN_S}s", "--delete-emptydir-data")
        command = [str(self.server.kubectl_binary), "--kubeconfig", str(self.server.kubeconfig), *words]
        with Popen(command, stdout=PIPE, stderr=STDOUT, text=True) as running:
            said, _ = running.communicate(timeout=DRAIN_S * 5)
        return said


def wait_for(what: str, probe: Callable[[], object]) -> None:
    wait_until(probe, what)


@pytest.fixture(scope="module")
def bed(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """Two groups of two, each with a member on either node, all ready."""
    found = Bed(apiserver)
    log = tmp_path_factory.mktemp("controllers") / "log"
    command = [
        str(find_binary("kube-controller-manager")), f"--kubeconfig={apiserver.kubeconfig}", "--leader-elect=false",
        "--controllers=statefulset-controller,disruption-controller", "--bind-address=127.0.0.1",
        f"--secure-port={free_ports(1)[0]}",
    ]  # fmt: skip
    with log.open("wb") as out, Popen(command, stdout=out, stderr=STDOUT) as controllers:
        try:
            _fill(found)
            yield found
        finally:
            controllers.terminate()
            apiserver.kubectl("delete", "nodes", *NODES, check=False)
            apiserver.kubectl("delete", "pods", "--all", "-n", SPACE, "--force", "--grace-period=0", check=False)


def _fill(bed: Bed) -> None:
    bed.server.kubectl("create", "namespace", SPACE)
    spec = {
        "model": {"id": "duo", "source": {"pvc": {"claimName": "models", "path": "duo"}}},
        "replicas": 2,
        "deployment": {"mode": "Distributed", "nodes": 2},
        "license": {"required": False},
    }
    service = LLMService.model_validate({"metadata": {"name": "duo", "namespace": SPACE, "uid": "uid-1"}, "spec": spec})
    shape = PodShape(image="server:1", command=("windlass",), args=("run",), cpu="1", memory="1Gi", shm="1Gi",
                     gpus=0, weights_gib=1)  # fmt: skip
    for node in NODES:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": {}}}
        bed.server.kubectl("create", "-f", "-", stdin=json.dumps(body))
    for manifest in (*group_objects(service, GroupShape(shape, 2, "Native"), 2), disruption_budget(service)):
        done = bed.server.apply(manifest, "--server-side")
        assert done.returncode == 0, done.stderr
    names = [f"duo-{replica}-{member}" for replica in range(2) for member in range(2)]
    wait_for("the pods", lambda: sorted(bed.pods()) == names)
    for name in names:
        bed.place(name, NODES[int(name[-1])])
        bed.tell(name, ready=True)
    wait_for("the budget", lambda: bed.allowed() > 0)


def test_a_drain_takes_one_replica_and_waits_with_the_other(bed: Bed) -> None:
    """The steps of one drain after another, from two whole replicas to two whole replicas elsewhere."""
    said = bed.drain("east")
    (first,) = bed.going()
    replica = first[:-1]
    other = "duo-1-" if replica == "duo-0-" else "duo-0-"
    assert f'pods/"{other}0"' in said
    assert "would violate the pod's disruption budget" in said

    # The evicted pod ends, its partner's engine with it. The rest of this replica may leave now, the other not yet.
    bed.end(first)
    bed.tell(f"{replica}1", ready=False)
    wait_for("the budget", lambda: bed.allowed() == 0)
    bed.drain("west")
    assert bed.going() == {f"{replica}1"}

    # The replica is whole again on nodes that were given back: only then the other one goes.
    bed.end(f"{replica}1")
    bed.server.kubectl("uncordon", *NODES)
    for member in range(2):
        bed.place(f"{replica}{member}", "west")
        bed.tell(f"{replica}{member}", ready=True)
    wait_for("the budget", lambda: bed.allowed() == 1)
    bed.drain("east")
    assert bed.going() == {f"{other}0"}
