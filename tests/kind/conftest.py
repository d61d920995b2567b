"""The cluster of the end-to-end scenarios: brought up when absent, and taken down again when this run started it.

`WINDLASS_KEEP=1` keeps it for the next run. Everything here goes through kubectl, as a user would.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from windlass_testbed import charts, cluster, daemon, demo, deploy, licensing, machine
from windlass_testbed.airgap import deny_egress
from windlass_testbed.errors import BedError
from windlass_testbed.licensing import LicenseServer
from windlass_testbed.paths import Paths, paths
from windlass_testbed.waiting import wait_until

SCENARIO = "test-"
"""How the namespaces of the scenarios begin."""
LICENSE_NAMESPACE = "test-e2e-license-server"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.kind)


HANG_S = 600
"""Ends a scenario that hangs; a pod's start or end takes as long as the machine needs."""


def wait_for(what: str, probe: Callable[[], Any], timeout_s: float = HANG_S) -> Any:
    """Return the first true value of `probe`; fail with what was waited for."""
    return wait_until(probe, what, timeout_s, 0.5)


@dataclass(frozen=True)
class Bed:
    """The cluster with Windlass installed, and the few words that the scenarios say to it."""

    paths: Paths
    images: deploy.Deployed
    licenses: LicenseServer
    """The scenarios' own: the installation's keeps its license, its seats and its pod."""

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return cluster.kubectl(self.paths, *words, stdin=stdin)

    def get(self, namespace: str, kind: str, name: str) -> dict[str, Any]:
        return json.loads(self.kubectl("-n", namespace, "get", kind, name, "-o", "json"))

    def items(self, namespace: str, kinds: str, *words: str) -> list[dict[str, Any]]:
        return json.loads(self.kubectl("-n", namespace, "get", kinds, "-o", "json", *words))["items"]

    def apply(self, namespace: str, name: str, **spec: Any) -> None:
        """Apply a service of the demo's model that leases from the scenarios' license server, unless `spec` differs."""
        model = spec.pop("model", {"id": "demo", "source": {"pvc": {"claimName": "models", "path": "demo"}}})
        body = {
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": name},
            "spec": {
                "model": model,
                "resources": {"cpu": "300m", "memory": "3Gi"},
                "license": {"addresses": [self.licenses.url]},
                **spec,
            },
        }
        self.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(body))

    def condition(self, namespace: str, name: str, kind: str) -> dict[str, str]:
        rows = self.get(namespace, "llm", name).get("status", {}).get("conditions", [])
        return next((row for row in rows if row["type"] == kind), {})

    def reason(self, namespace: str, name: str, *reasons: str, timeout_s: float = HANG_S) -> dict[str, str]:
        """Wait until Ready has one of the reasons for the present spec and return the condition.

        A True Ready is of the last spec whose replicas all answered; any other is of the spec that the status is of.
        """

        def probe() -> dict[str, str] | None:
            service = self.get(namespace, "llm", name)
            status = service.get("status", {})
            ready = next((row for row in status.get("conditions", []) if row["type"] == "Ready"), {})
            seen = ready if ready.get("status") == "True" else status
            is_of_it = seen.get("observedGeneration") == service["metadata"]["generation"]
            return ready if is_of_it and ready.get("reason") in reasons else None

        try:
            return wait_for(f"Ready reason {reasons} of {name}", probe, timeout_s)
        except BaseException:
            print(self.kubectl("-n", namespace, "describe", "llm", name))
            print(self.kubectl("-n", namespace, "get", "all,events", "-o", "wide"))
            raise

    def ready(self, namespace: str, name: str, timeout_s: float = HANG_S) -> None:
        self.reason(namespace, name, "Running", timeout_s=timeout_s)

    def wait(self, what: str, probe: Callable[[], Any], timeout_s: float = HANG_S) -> Any:
        return wait_for(what, probe, timeout_s)

    def gpus_settled(self) -> None:
        """Wait until no pod that is being deleted holds a GPU: a license names those of pods that live."""

        def going() -> list[str]:
            pods = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))["items"]
            held = [pod for pod in pods if "nvidia.com/gpu" in json.dumps(pod["spec"])]
            return [pod["metadata"]["name"] for pod in held if "deletionTimestamp" in pod["metadata"]]

        wait_for("pods with GPUs that others delete", lambda: not going())

    def programs(self) -> str:
        """The PATH of a user: this environment's programs, the cluster's, the machine's."""
        return f"{Path(sys.executable).parent}:{self.paths.bin}:{os.environ['PATH']}"

    def license(self, gpus: str, **terms: Any) -> str:
        """Put a license for `nvidia-smi -L` lines into the scenarios' license server."""
        file = licensing.issue(self.paths, gpus, self.paths.run / "license-e2e.dat", **terms)
        return self.licenses.upload(file)

    def helm(self, *words: str) -> str:
        return charts.helm(self.paths, *words)


@pytest.fixture(scope="session")
def bed() -> Iterator[Bed]:
    where = paths()
    machine.ensure_packages()
    ours = not daemon.answers(where)
    try:
        cluster.check(where)
        deployed = deploy.bring_up(where)
        deny_egress(where)
        deploy.install_charts(where, deployed)
        deploy.make_model(where)
        licenses = LicenseServer(where, LICENSE_NAMESPACE)
        licenses.install(deployed["license-server"])
        yield Bed(where, deployed, licenses)
        if not ours:
            cluster.kubectl(where, "delete", "namespace", LICENSE_NAMESPACE, "--timeout=600s")
    except BedError as error:
        pytest.fail(str(error))
    finally:
        if ours and not os.environ.get("WINDLASS_KEEP"):
            demo.delete(where)


def others_ready(bed: Bed) -> set[str]:
    """Return the services outside the scenarios' namespaces that are ready, the demo's among them."""
    rows = json.loads(bed.kubectl("get", "llm", "-A", "-o", "json"))["items"]
    return {
        f"{row['metadata']['namespace']}/{row['metadata']['name']}"
        for row in rows
        if not row["metadata"]["namespace"].startswith(SCENARIO)
        and any(one["type"] == "Ready" and one["status"] == "True" for one in row["status"].get("conditions", ()))
    }


def others_restarts(bed: Bed) -> dict[str, int]:
    """Return how often each serving pod outside the scenarios' namespaces was started again."""
    pods = json.loads(bed.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/component=server", "-o", "json"))
    return {
        pod["metadata"]["uid"]: status["restartCount"]
        for pod in pods["items"]
        if not pod["metadata"]["namespace"].startswith(SCENARIO)
        for status in pod["status"].get("containerStatuses", ())
    }


@pytest.fixture(scope="session", autouse=True)
def _nobody_stops_his_neighbour(bed: Bed) -> Iterator[None]:
    """A service that was ready before the scenarios is ready after them, and none of its pods restarted."""
    ready, restarts = others_ready(bed), others_restarts(bed)
    yield
    assert ready <= others_ready(bed)
    grown = {uid: count for uid, count in others_restarts(bed).items() if count > restarts.get(uid, 0)}
    assert grown == {}


@pytest.fixture(scope="session")
def leaving(bed: Bed) -> Iterator[list[str]]:
    """Namespaces of modules that are over: they go while others run, and every one must be gone at the end."""
    names: list[str] = []
    yield names
    for name in names:
        bed.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=600s")
        bed.kubectl("delete", "pv", f"windlass-models-{name}", "--ignore-not-found", "--timeout=600s")


@pytest.fixture(scope="module")
def namespace(bed: Bed, leaving: list[str], request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the module's own with a claim on the models, told to go at the end."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    bed.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=600s")
    bed.kubectl("delete", "pv", f"windlass-models-{name}", "--ignore-not-found", "--timeout=600s")
    bed.kubectl("create", "namespace", name)
    deploy.models_volume(bed.paths, name)
    yield name
    leaving.append(name)
    bed.kubectl("delete", "namespace", name, "--wait=false")
