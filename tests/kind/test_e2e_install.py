"""Installing: without any way out, with the rights of one namespace, upgraded, taken away and brought back."""

import json
import subprocess

import pytest
from windlass_testbed import deploy
from windlass_testbed.airgap import NODES, refused
from windlass_testbed.errors import BedError

CRD = "llmservices.serving.windlass.dev"
NAME = "sleeper"
SYSTEM = deploy.SYSTEM_NAMESPACE
SLEEP = ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]


@pytest.fixture(scope="module")
def sleeper(bed, namespace):
    """A service whose pod costs nothing: its own command never serves, and goes when it is told to."""
    bed.apply(
        namespace, NAME, command=SLEEP, resources={"gpus": 0, "cpu": "10m", "memory": "64Mi"},
        license={"required": False},
    )  # fmt: skip
    bed.wait("the pod runs", lambda: uids(bed, namespace))
    return NAME


def uids(bed, namespace):
    """The pods of the service that run, by uid."""
    pods = bed.items(namespace, "pods", "-l", f"serving.windlass.dev/service={NAME},app.kubernetes.io/component=server")
    return sorted(pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running")


def on_duty(bed):
    """The operator's pods that are ready, and the one that holds the lease."""
    pods = bed.items(SYSTEM, "pods", "-l", "app.kubernetes.io/name=windlass-operator")
    ready = [
        pod["metadata"]["name"]
        for pod in pods
        if any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions", ()))
    ]
    leases = bed.items(SYSTEM, "leases")
    holders = [row["spec"].get("holderIdentity") or "" for row in leases]
    return ready, holders


def test_nothing_leaves_the_cluster(bed):
    """Every scenario of these tests is installed and served behind these rules."""
    assert all(refused(bed.paths, node) for node in NODES)


def test_two_operators_are_ready_and_one_is_on_duty(bed):
    """The second is warm: it takes over when the first goes."""
    ready, holders = bed.wait("two ready operators and one holder", lambda: _pair(bed))
    assert len(ready) == 2
    (holder,) = [name for name in ready if any(name in one for one in holders)]
    bed.kubectl("-n", SYSTEM, "delete", "pod", holder, "--wait=false")
    bed.wait("another holder", lambda: (rows := on_duty(bed)[1]) and not any(holder in one for one in rows))


def _pair(bed):
    ready, holders = on_duty(bed)
    return (ready, holders) if len(ready) == 2 and any(holders) else None


def test_an_upgrade_brings_the_fields_of_the_new_crd(bed):
    """Helm alone never touches what lies in a chart's crds folder; ours is a template."""
    schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/suspend"
    bed.kubectl("patch", "crd", CRD, "--type=json", "-p", json.dumps([{"op": "remove", "path": schema}]))
    bed.wait("the field's end", lambda: not explained(bed))
    deploy.install_charts(bed.paths, bed.images)
    bed.wait("the field's return", lambda: "takes the pods and their GPUs away" in explained(bed))


def explained(bed):
    """What `kubectl explain` says of one field; empty when there is none. The API server publishes with some delay."""
    try:
        return " ".join(bed.kubectl("explain", "llmservice.spec.suspend").split())
    except BedError:
        return ""


def test_every_line_of_explain_has_a_text(bed):
    """Of the whole spec and status."""
    for part in ("spec", "status"):
        text = bed.kubectl("explain", f"llmservice.{part}", "--recursive=false")
        assert "<no description>" not in text


def test_what_runs_outlives_the_operator(bed, namespace, sleeper):
    """Uninstalled, the resources and the pods stay; installed again, the operator takes them up without a restart."""
    before = uids(bed, namespace)
    bed.helm("uninstall", "windlass", "--namespace", SYSTEM, "--wait", "--timeout", "60s")
    assert bed.get(namespace, "llm", sleeper)["metadata"]["name"] == sleeper
    assert uids(bed, namespace) == before
    deploy.install_charts(bed.paths, bed.images)
    bed.kubectl("-n", namespace, "patch", "llm", sleeper, "--type=merge", "-p", '{"spec":{"replicas":0}}')
    bed.reason(namespace, sleeper, "ScaledToZero")


def test_values_that_are_wrong_are_named_before_anything_is_installed(bed):
    """By the chart's schema."""
    with pytest.raises(Exception, match=r"nodePaths"):
        bed.helm(
            "upgrade", "windlass", str(deploy.REPOSITORY / "charts/windlass"), "--namespace", SYSTEM,
            "--dry-run", "--set", "nodePaths[0]=models",
        )  # fmt: skip


def test_the_notes_print_the_next_commands(bed):
    """The three that follow."""
    said = bed.helm("get", "notes", "windlass", "--namespace", SYSTEM)
    assert [line[:2] for line in said.splitlines() if line[:2] in ("1.", "2.", "3.")] == ["1.", "2.", "3."]
    service = said.split("<<'EOF'\n")[1].split("\nEOF\n")[0]
    done = subprocess.run(
        [bed.paths.bin / "kubectl", "--kubeconfig", bed.paths.kubeconfig, "apply", "--dry-run=server", "-f", "-"],
        input=service, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
