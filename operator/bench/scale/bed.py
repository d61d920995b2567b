"""The bed of the scale run: real etcd, API server, controllers and scheduler; kwok plays the kubelets; facts for pods.

Everything is a process of its own on loopback ports, started in one folder and stopped by process id.
"""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import kubelets
from measure import Process

REPOSITORY = Path(__file__).resolve().parents[3]
CRD_FILE = REPOSITORY / "crds" / "llmservices.serving.windlass.dev.yaml"
STOP_TIMEOUT_S = 20
OPERATOR_USER = "scale-operator"
CONTROLLERS = "deployment-controller,replicaset-controller,job-controller"
ALL_CONTROLLERS = f"{CONTROLLERS},statefulset-controller,garbage-collector-controller,namespace-controller"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [OPERATOR_USER]},
        {"level": "None"},
    ],
}
WRITES = ("create", "update", "patch", "delete", "deletecollection")
# A /24, as the API-server tests have it, ends at 254 Services; and without compaction etcd fills up at 10,000.
ROOM = ("--service-cluster-ip-range=10.64.0.0/12", "--etcd-compaction-interval=1m")
# Processor time is what bounds the run, memory is not: the bed's programs, all in Go, collect their garbage less often.
COLLECTOR = {"GOGC": "300", "GOMEMLIMIT": "6GiB"}


def _control_plane() -> ModuleType:
    """The processes of the API-server tests, so that there is one way to start them."""
    path = REPOSITORY / "tests" / "apiserver" / "control_plane.py"
    spec = importlib.util.spec_from_file_location("control_plane", path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be loaded")
    module = sys.modules["control_plane"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


control_plane = _control_plane()


@dataclass(frozen=True, slots=True)
class Bed:
    """What runs, and how to talk to it."""

    folder: Path
    api: Any  # control_plane.ApiServer

    def requests(self) -> list[dict[str, Any]]:
        """All requests of the operator so far by the API server's audit log, its Lease left out."""
        log = self.folder / "audit.log"
        rows = [json.loads(line) for line in log.open()] if log.exists() else []
        return [row for row in rows if row.get("objectRef", {}).get("resource") not in (None, "leases")]

    def writes(self) -> list[dict[str, Any]]:
        """Those of them that write."""
        return [row for row in self.requests() if row["verb"] in WRITES]


@contextmanager
def running_bed(folder: Path, controllers: str = CONTROLLERS) -> Iterator[Bed]:
    """Start everything but the operator; the API server has our CRD."""
    os.environ |= COLLECTOR
    policy, log = folder / "audit-policy.json", folder / "audit.log"
    policy.write_text(json.dumps(AUDIT_POLICY))
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},{OPERATOR_USER},{OPERATOR_USER},"system:masters"\n')
    flags = (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        *ROOM,
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=2000",
    )
    with ExitStack() as stack:
        api = stack.enter_context(control_plane.running_api_server(folder, flags))
        api.install_crd(CRD_FILE)
        _operator_login(folder, api, token)
        for name, command in _commands(folder, api, controllers).items():
            stack.enter_context(process(command, folder / f"{name}.log"))
        yield Bed(folder, api)


def _operator_login(folder: Path, api: Any, token: str) -> None:  # noqa: ANN401 - of a module loaded by path
    config = json.loads(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = folder / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)


def _commands(folder: Path, api: Any, controllers: str) -> dict[str, Sequence[str]]:  # noqa: ANN401 - of a module loaded by path
    stages = folder / "stages.yaml"
    stages.write_text(kubelets.stages())
    kubeconfig = f"--kubeconfig={api.kubeconfig}"
    fast = ("--kube-api-qps=2000", "--kube-api-burst=4000", "--leader-elect=false", "--bind-address=127.0.0.1")
    managers, scheduler = control_plane.free_ports(2)
    return {
        "kube-controller-manager": (
            str(control_plane.find_binary("kube-controller-manager")), kubeconfig, *fast,
            f"--secure-port={managers}", f"--controllers={controllers}", "--concurrent-deployment-syncs=10",
            "--concurrent-replicaset-syncs=10", "--concurrent-job-syncs=10",
        ),
        "kube-scheduler": (
            str(control_plane.find_binary("kube-scheduler")), kubeconfig, *fast, f"--secure-port={scheduler}",
        ),
        "kwok": (
            str(control_plane.find_binary("kwok")), kubeconfig, f"--config={stages}", "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0", "--server-address=",
        ),
    }  # fmt: skip


@contextmanager
def process(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """One process with its log; terminated at the end, killed when it does not go."""
    with log.open("ab") as out:
        running = subprocess.Popen(
            list(command), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env
        )
    try:
        yield Process(running)
    finally:
        running.terminate()
        try:
            running.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def operator(bed: Bed, metrics_port: int, health_port: int) -> tuple[Sequence[str], dict[str, str]]:
    """Command and environment of the operator, as the chart would start it."""
    env = {
        **os.environ,
        "KUBECONFIG": str(bed.folder / "operator.kubeconfig"),
        "WINDLASS_SERVER_IMAGE": "windlass/server",
        "WINDLASS_SERVER_VERSION": "1.2",
        "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2",
        "WINDLASS_METRICS_PORT": str(metrics_port),
        "WINDLASS_HEALTH_PORT": str(health_port),
        "WINDLASS_POD_NAME": "scale-operator-0",
        "WINDLASS_POD_NAMESPACE": "default",
        "WINDLASS_LEASE_NAME": "windlass-operator",
    }
    return (sys.executable, "-m", "windlass_operator", "run"), env
