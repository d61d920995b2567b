"""Two operator processes and one Lease on a real API server: killed, frozen, stopped, and the API server restarted.

Who wrote when is read from the API server's audit log, where each operator is a user of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from windlass_testbed.waiting import HANG_S, wait_until

pytestmark = pytest.mark.apiserver

PATIENCE_S = 90
DURATION_S = 15  # of the Lease
REPLICAS = ("operator-a", "operator-b")
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": list(REPLICAS), "verbs": ["create", "update", "patch", "delete"]},
        {"level": "None"},
    ],
}


@dataclass
class Bed:
    """An API server of our own, with what stops and starts it, and the operators by name."""

    folder: Path
    control_plane: object
    crd_file: Path
    stack: ExitStack
    etcd_url: str = ""
    server: object = None
    running: ExitStack = field(default_factory=ExitStack)
    operators: dict[str, subprocess.Popen] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """etcd and the API server; each operator has a token of its own."""
        for name in REPLICAS:
            token = secrets.token_hex(16)
            (self.folder / f"{name}.token").write_text(token)
            with (self.folder / "tokens.csv").open("a") as tokens:
                tokens.write(f'{token},{name},{name},"system:masters"\n')
        (self.folder / "policy.json").write_text(json.dumps(POLICY))
        self.etcd_url = self.stack.enter_context(self.control_plane.running_etcd(self.folder))
        self.start_server()
        self.server.install_crd(self.crd_file)

    def start_server(self) -> None:
        """The API server, on the port that it had before."""
        flags = (f"--audit-policy-file={self.folder / 'policy.json'}", f"--audit-log-path={self.folder / 'audit.log'}")
        port = int(self.server.url.rsplit(":", 1)[1]) if self.server else None
        running = self.control_plane.running_apiserver(self.folder, self.etcd_url, flags, port)
        self.server = self.running.enter_context(running)

    def operator(self, name: str) -> None:
        """Start one operator; its log is kept beside."""
        config = json.loads(self.server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": (self.folder / f"{name}.token").read_text()}
        kubeconfig = self.folder / f"{name}.kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        (self.ports[name],) = self.control_plane.free_ports(1)
        env = {
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "WINDLASS_SERVER_IMAGE": "windlass/server",
            "WINDLASS_SERVER_VERSION": "1.2",
            "WINDLASS_OPERATOR_IMAGE": "windlass/operator:1.2",
            "WINDLASS_METRICS_PORT": str(self.ports[name]),
            "WINDLASS_HEALTH_PORT": "0",
            "WINDLASS_LEASE_NAME": "windlass-operator",
            "WINDLASS_POD_NAME": name,
            "WINDLASS_POD_NAMESPACE": "default",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "windlass_operator", "run"]
            self.operators[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)

    def ready(self, name: str) -> bool:
        """What the operator's /readyz says."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}/readyz", timeout=HANG_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def holder(self) -> str:
        """Who is on duty, as the Lease says."""
        done = self.server.kubectl(
            "get", "lease", "windlass-operator", "-o", "jsonpath={.spec.holderIdentity}", check=False
        )
        return str(done.stdout)

    def writes(self, name: str) -> list[dict]:
        """The operator's writes in the audit log, its Lease left out."""
        log = self.folder / "audit.log"
        rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [row for row in rows if row["user"]["username"] == name and row["objectRef"]["resource"] != "leases"]

    def create(self, name: str) -> None:
        """One LLMService."""
        source = {"nfs": {"server": "10.0.0.12", "path": f"/models/{name}"}}
        body = {
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": name},
            "spec": {"model": {"id": "m", "source": source}, "license": {"required": False}},
        }
        self.server.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def names(self, kind: str, label: str) -> set[str]:
        """The values of a label over all objects of a kind."""
        found = self.server.get(kind)["items"]
        return {item["metadata"].get("labels", {}).get(label, item["metadata"]["name"]) for item in found}

    def inspected(self) -> set[str]:
        """The services that have their Job."""
        return self.names("jobs", "serving.windlass.dev/service")

    def until(self, look, what: str) -> float:
        """Seconds until the look is true."""
        begun = time.monotonic()
        try:
            wait_until(look, what, look_s=0.1)
        except AssertionError as error:
            logs = "".join(path.read_text()[-2000:] for path in self.folder.glob("operator-*.log"))
            raise AssertionError(f"{error}\n{logs}") from error
        return time.monotonic() - begun

    def end(self) -> None:
        """Stop whatever still runs."""
        for process in self.operators.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.running.close()


@pytest.fixture
def bed(tmp_path, apiserver):
    """Two operators, the first on duty, the second standing by with all its watches synced."""
    module = sys.modules[type(apiserver).__module__]
    crd_file = Path(__file__).parents[2] / "crds" / "llmservices.serving.windlass.dev.yaml"
    with ExitStack() as stack:
        bed = Bed(tmp_path, module, crd_file, stack)
        stack.callback(bed.end)
        bed.start()
        for name in REPLICAS:
            bed.operator(name)
            bed.until(lambda name=name: bed.ready(name), f"{name} is ready")
            bed.until(lambda: bed.holder() == "operator-a", "operator-a is on duty")
        yield bed


def never_together(bed: Bed) -> None:
    """The first's last write had ended before the second's first began; the second did write."""
    first, second = (bed.writes(name) for name in REPLICAS)
    assert first
    assert second
    ended = max(row["stageTimestamp"] for row in first)
    assert ended < min(row["requestReceivedTimestamp"] for row in second)


def test_a_killed_operator_loses_nothing(bed, record_property):
    """kill -9 in the middle of creates: the stand-by takes over, and every service is brought on its way."""
    wanted = {f"s{number}" for number in range(24)}
    creates = threading.Thread(target=lambda: [bed.create(name) for name in sorted(wanted)])
    creates.start()
    bed.until(lambda: len(bed.inspected()) >= 3, "the first Jobs")
    bed.operators["operator-a"].kill()
    killed = time.monotonic()
    bed.until(lambda: bed.holder() == "operator-b", "operator-b is on duty")
    record_property("take_over_s", round(time.monotonic() - killed, 1))
    creates.join()
    bed.until(lambda: bed.inspected() == wanted, "every service has its Job")
    print(f"\nwrites of the successor begin {time.monotonic() - killed:.1f} s after kill -9 at the latest")
    never_together(bed)


def test_a_frozen_operator_writes_nothing_when_it_thaws(bed):
    """A process that stops for longer than its Lease must not go on where it was: its writes are fenced."""
    bed.create("before")
    bed.until(lambda: "before" in bed.inspected(), "a Job by the first")
    stopped = time.monotonic()
    bed.operators["operator-a"].send_signal(signal.SIGSTOP)
    bed.create("meanwhile")
    bed.until(lambda: "meanwhile" in bed.inspected(), "a Job by the successor")
    assert time.monotonic() - stopped > DURATION_S / 2  # clock: at least; a slow machine only takes longer
    bed.operators["operator-a"].send_signal(signal.SIGCONT)
    bed.create("after")
    bed.until(lambda: "after" in bed.inspected(), "one more Job")
    bed.until(lambda: bed.ready("operator-a"), "the first stands by")
    bed.create("later")
    bed.until(lambda: "later" in bed.inspected(), "a Job while the first stands by")
    assert bed.holder() == "operator-b"
    never_together(bed)


def test_a_stopped_operator_hands_over_at_once(bed):
    """SIGTERM releases the Lease: the stand-by need not wait for its end."""
    bed.create("before")
    bed.until(lambda: "before" in bed.inspected(), "a Job by the first")
    bed.operators["operator-a"].terminate()
    assert bed.operators["operator-a"].wait(PATIENCE_S) == 0
    assert bed.holder() != "operator-a"
    took = bed.until(lambda: bed.holder() == "operator-b", "operator-b is on duty")
    print(f"\nhanded over {took:.1f} s after its end")
    bed.create("after")
    bed.until(lambda: "after" in bed.inspected(), "a Job by the second")
    never_together(bed)


def test_a_deleted_lease_gives_no_second_writer(bed):
    """The first makes it anew and goes on; the stand-by, which saw it go, writes nothing."""
    bed.create("before")
    bed.until(lambda: "before" in bed.inspected(), "a Job by the first")
    bed.server.kubectl("delete", "lease", "windlass-operator")
    bed.create("after")
    bed.until(lambda: bed.holder() == "operator-a", "operator-a is on duty again")
    bed.until(lambda: "after" in bed.inspected(), "a Job by the first again")
    assert bed.writes("operator-b") == []


def test_a_restarted_api_server_is_followed_again(bed):
    """Watches come back by themselves, what was deleted meanwhile is noticed, and healing goes on."""
    bed.create("one")
    bed.until(lambda: "one" in bed.inspected(), "a Job")
    bed.running.close()
    bed.running = ExitStack()
    bed.start_server()
    bed.server.kubectl("delete", "jobs", "--all", "--cascade=background", "--wait=false")
    bed.until(lambda: "one" in bed.inspected(), "the Job again")
    bed.create("two")
    bed.until(lambda: "two" in bed.inspected(), "another Job")
    bed.until(lambda: all(bed.ready(name) for name in REPLICAS), "both are ready")
