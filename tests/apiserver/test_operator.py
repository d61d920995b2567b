"""The whole operator, in this process, against a real API server: what it makes, heals, says, and leaves alone.

No kubelet and no controllers run here, so the tests play them: they make the Job's pod and patch statuses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from windlass_operator.runtime import metrics
from windlass_operator.settings import Settings
from windlass_sizing.model.facts import from_config

sys.path.insert(0, str(Path(__file__).parent))

from operator_thread import operating
from windlass_testbed.waiting import wait_until

pytestmark = pytest.mark.apiserver

CHART = Path(__file__).parents[2] / "charts" / "windlass"
NODE = "gpu-node-of-test-operator"
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
FOUND = json.dumps({"ok": True, "facts": from_config(CONFIG, weights_bytes=988_097_824).to_dict()})
NOT_FOUND = json.dumps(
    {"ok": False, "reason": "PathNotFound", "message": 'source.path "nope" is not in PVC models; / has: qwen2-0.5b'}
)


@dataclass
class Bed:
    """One namespace of the API server, with the words of the tests."""

    server: object
    namespace: str

    def kubectl(self, *arguments: str, **options: object) -> str:
        return self.server.kubectl("-n", self.namespace, *arguments, **options).stdout

    def get(self, *arguments: str) -> dict:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def items(self, kind: str) -> list[dict]:
        return self.get(kind)["items"]

    def apply(self, document: dict) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(document))

    def patch(self, target: str, patch: dict, *options: str) -> None:
        self.kubectl("patch", target, "--type=merge", "-p", json.dumps(patch), *options)

    def until(self, look: Callable[[], object], what: str) -> object:
        """Wait until the look finds something true; says what was awaited when it never does."""
        try:
            return wait_until(look, what, look_s=0.1)
        except AssertionError as error:
            error.add_note(json.dumps(self.items("llm")[0].get("status"), indent=1))
            raise

    def condition(self, name: str, type_: str) -> dict:
        """The condition, once the status is of the present spec."""
        service = self.get("llm", name)
        status, generation = service.get("status", {}), service["metadata"]["generation"]
        rows = status["conditions"] if status.get("observedGeneration") == generation else []
        return next((row for row in rows if row["type"] == type_), {})

    def until_reason(self, name: str, type_: str, reason: str) -> dict:
        look = lambda: (row := self.condition(name, type_)).get("reason") == reason and row  # noqa: E731
        return self.until(look, f"{type_} {reason}")

    def answer_inspection(self, message: str) -> dict:
        """Play Job controller and kubelet: a pod of the Job that ended with this termination message."""
        job = (self.until(lambda: self.items("jobs"), "an inspect Job"))[0]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": job["metadata"]["name"] + "-" + job["metadata"]["uid"][:5],
                "labels": job["spec"]["template"]["metadata"]["labels"],
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "controller": True,
                                     "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}],
            },
            "spec": job["spec"]["template"]["spec"],
        }  # fmt: skip
        ended = {"exitCode": 0, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
        row = {"name": "inspect", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
               "state": {"terminated": ended}}  # fmt: skip
        self.apply(pod)
        status = {"status": {"phase": "Succeeded", "containerStatuses": [row]}}
        self.patch(f"pod/{pod['metadata']['name']}", status, "--subresource=status")
        return job


def a_service(name: str = "qwen", path: str = "qwen2-0.5b", **spec: object) -> dict:
    source = {"pvc": {"claimName": "models", "path": path}}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {"model": {"id": "Qwen2-0.5B-Instruct", "source": source}, "license": {"required": False}, **spec},
    }


def on_cpu(**spec: object) -> dict:
    return a_service(resources={"gpus": 0, "memory": "4096Mi"}, engine={"maxModelLen": 2048}, **spec)


@contextmanager
def running_operator(namespace: str | None) -> Iterator[None]:
    """The operator in a thread with a loop of its own."""
    settings = Settings(
        server_image="windlass/server",
        server_version="1.2",
        operator_image="windlass/operator:1.2",
        watch_namespaces=(namespace,) if namespace else (),
        metrics_port=0,
        health_port=0,
    )
    with operating(settings):
        yield


@pytest.fixture
def operator_kubeconfig(apiserver, namespace, tmp_path):
    """A login with exactly the rights that the chart gives the operator for one namespace."""
    rights = rendered_rights(apiserver, namespace, tmp_path, f"watchNamespaces={{{namespace}}}")
    apiserver.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    account = next(row["metadata"]["name"] for row in rights if row["kind"] == "ServiceAccount")
    token = apiserver.kubectl("-n", namespace, "create", "token", account).stdout
    config = json.loads(apiserver.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = tmp_path / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def rendered_rights(apiserver, namespace: str, home: Path, *values: str) -> list[dict]:
    """The chart's service account, roles and bindings."""
    helm = sys.modules[type(apiserver).__module__].find_binary("helm")
    sets = [word for value in ("crds.enabled=false", *values) for word in ("--set", value)]
    done = subprocess.run(
        [helm, "template", namespace, CHART, "--namespace", namespace, *sets],
        env={"HOME": str(home), "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    return [row for row in yaml.safe_load_all(done.stdout) if row and row["kind"] in wanted]


@pytest.fixture
def bed(apiserver, namespace, operator_kubeconfig, monkeypatch):
    """The operator at work in one namespace, with no more rights than the chart gives it."""
    monkeypatch.setenv("KUBECONFIG", str(operator_kubeconfig))
    with running_operator(namespace):
        yield Bed(apiserver, namespace)


@pytest.fixture
def gpu_node(apiserver):
    """A node with two L20 that takes pods."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-L20", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.count": "2"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
    apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(node))
    status = {"allocatable": {"nvidia.com/gpu": "2"}, "capacity": {"nvidia.com/gpu": "2"},
              "conditions": [{"type": "Ready", "status": "True"}]}  # fmt: skip
    apiserver.kubectl(
        "patch", "node", NODE, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )
    yield NODE
    apiserver.kubectl("delete", "node", NODE)


def planned(bed: Bed, service: dict) -> dict:
    """Apply a service, answer its inspection, and wait for its Deployment."""
    bed.apply(service)
    bed.answer_inspection(FOUND)
    name = service["metadata"]["name"]
    bed.until_reason(name, "Planned", "Planned")
    return bed.get("deployment", name)


def test_a_service_is_inspected_planned_and_served(bed, gpu_node):
    """Apply → Job → facts → plan → Deployment and Service with the planned flags."""
    deployment = planned(bed, a_service(engine={"maxModelLen": 4096}))
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["windlass"]
    assert container["args"] == [
        "run", "--model", "/data/model", "--served-model-name", "Qwen2-0.5B-Instruct", "--tensor-parallel-size", "1",
        "--max-model-len", "4096", "--dtype", "float16", "--gpu-memory-utilization", "0.90",
        "--shutdown-timeout", "60",
    ]  # fmt: skip
    assert container["image"] == "windlass/server:1.2"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert deployment["spec"]["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-L20"}
    assert bed.get("service", "qwen")["spec"]["ports"][0]["port"] == 8501
    status = bed.until(lambda: (s := bed.get("llm", "qwen")["status"]).get("addresses") and s, "an address")
    assert (status["plan"]["gpus"], status["plan"]["gpuType"]) == (1, "L20")
    assert status["addresses"] == [{"name": "cluster", "url": f"http://qwen.{bed.namespace}.svc:8501/v1"}]
    assert bed.condition("qwen", "Ready")["reason"] == "Starting"


def test_a_service_becomes_ready_with_its_first_replica(bed):
    """Ready is True exactly while a replica answers; then nothing moves any more."""
    planned(bed, on_cpu())
    serve = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    bed.patch("deployment/qwen", {"status": serve}, "--subresource=status")
    assert (bed.until_reason("qwen", "Ready", "Running"))["status"] == "True"
    bed.until_reason("qwen", "Progressing", "Settled")
    bed.patch(
        "deployment/qwen", {"status": {**serve, "readyReplicas": 0, "availableReplicas": 0}}, "--subresource=status"
    )
    assert (bed.until_reason("qwen", "Ready", "Starting"))["status"] == "False"


def test_a_wrong_path_is_named_with_what_is_there(bed):
    """No Deployment is made; the condition, the failure and an Event carry the Job's sentence."""
    bed.apply(a_service(path="nope"))
    bed.answer_inspection(NOT_FOUND)
    ready = bed.until_reason("qwen", "Ready", "PathNotFound")
    assert ready["status"] == "False"
    assert 'source.path "nope" is not in PVC models; / has: qwen2-0.5b' in ready["message"]
    assert bed.get("llm", "qwen")["status"]["failure"]["reason"] == "PathNotFound"
    assert bed.items("deployments") == []
    bed.until(lambda: [e for e in bed.items("events") if e["reason"] == "PathNotFound"], "an Event")


def test_a_corrected_path_is_inspected_at_once(bed):
    """A new source is a new Job; the old one goes."""
    bed.apply(a_service(path="nope"))
    old = bed.answer_inspection(NOT_FOUND)
    bed.until_reason("qwen", "Ready", "PathNotFound")
    bed.apply(on_cpu())
    names = lambda: [job["metadata"]["name"] for job in bed.items("jobs")]  # noqa: E731
    bed.until(lambda: len(names()) == 1 and old["metadata"]["name"] not in names(), "a new Job alone")
    bed.answer_inspection(FOUND)
    bed.until_reason("qwen", "Planned", "Planned")


def test_a_live_edit_is_healed(bed):
    """Fields of ours that someone edits or removes come back; what others add stays."""
    before = planned(bed, on_cpu())
    edit = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me", "extra": "kept"}}, "spec": {"replicas": 5}}
    bed.patch("deployment/qwen", edit)
    bed.kubectl("patch", "deployment/qwen", "--type=json", "-p",
                '[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["sleep"]}]')  # fmt: skip
    bed.kubectl("delete", "service", "qwen")

    def healed() -> bool:
        live = bed.get("deployment", "qwen")
        same = live["spec"]["template"] == before["spec"]["template"] and live["spec"]["replicas"] == 1
        return same and live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "windlass"

    bed.until(healed, "healing of the Deployment")
    bed.until(lambda: bed.items("services"), "the Service")
    assert bed.get("deployment", "qwen")["metadata"]["labels"]["extra"] == "kept"


def test_an_edited_key_of_a_list_is_healed(bed):
    """Ports are a map by number: the edited row is the editor's, and ours beside it would be a duplicate."""
    planned(bed, on_cpu())
    bed.until(lambda: bed.items("services"), "the Service")
    bed.kubectl("patch", "service/qwen", "--type=json", "-p",
                '[{"op":"replace","path":"/spec/ports/0/port","value":9999}]')  # fmt: skip
    bed.until(lambda: [p["port"] for p in bed.get("service", "qwen")["spec"]["ports"]] == [8501], "the port")


def test_a_second_look_writes_nothing(bed):
    """Steady state: an event leads to a look and the look to no request that writes."""
    planned(bed, on_cpu())
    bed.until_reason("qwen", "Ready", "Starting")
    settle(bed)
    writes, versions = _writes(), _versions(bed)
    look_again(bed)
    assert _writes() == writes
    assert _versions(bed) == versions


def test_a_restarted_operator_changes_nothing(bed, apiserver):
    """A new operator process may apply once to learn the API server's spelling; no object changes by it."""
    planned(bed, on_cpu())
    bed.until_reason("qwen", "Ready", "Starting")
    settle(bed)
    versions = _versions(bed)
    with running_operator(bed.namespace):
        look_again(bed)
        assert _versions(bed) == versions


def look_again(bed: Bed) -> None:
    """Four events, each with a look that has ended: of either operator where there are two."""
    for number in range(4):
        looks, pod = _looks(), "pod/" + bed.items("pods")[0]["metadata"]["name"]
        bed.patch(pod, {"metadata": {"annotations": {"touched": f"{looks}-{number}"}}})
        bed.until(lambda looks=looks: _looks() > looks, "another look")


def settle(bed: Bed) -> None:
    """Wait for looks that have written nothing."""

    def writes_nothing() -> bool:
        before = _writes()
        look_again(bed)
        return before == _writes()

    bed.until(writes_nothing, "a look that writes nothing")


def test_scaling_by_the_subresource_reaches_the_deployment(bed):
    """`kubectl scale llm` is enough, and 0 replicas is not a failure."""
    planned(bed, on_cpu())
    bed.kubectl("scale", "llm", "qwen", "--replicas=3")
    bed.until(lambda: bed.get("deployment", "qwen")["spec"]["replicas"] == 3, "3 replicas")
    bed.kubectl("scale", "llm", "qwen", "--replicas=0")
    bed.until_reason("qwen", "Ready", "ScaledToZero")
    assert bed.get("deployment", "qwen")["spec"]["replicas"] == 0


def test_a_foreign_object_of_the_same_name_is_not_taken_over(bed):
    """Someone's own Deployment stays theirs; the condition says so."""
    bed.kubectl("create", "deployment", "qwen", "--image=theirs")
    bed.apply(on_cpu())
    bed.answer_inspection(FOUND)
    ready = bed.until_reason("qwen", "Ready", "NameTaken")
    assert 'Deployment "qwen" exists already' in ready["message"]
    assert bed.get("deployment", "qwen")["spec"]["template"]["spec"]["containers"][0]["image"] == "theirs"


def test_a_service_that_waits_for_gpus_is_planned_when_a_node_comes(bed, request):
    """No GPU node is a reason with a remedy, and the node's arrival is noticed."""
    bed.apply(a_service())
    bed.answer_inspection(FOUND)
    ready = bed.until_reason("qwen", "Ready", "NoGpuNodes")
    assert "add a GPU node" in ready["message"]
    request.getfixturevalue("gpu_node")
    bed.until_reason("qwen", "Planned", "Planned")


def test_the_chart_s_rights_for_all_namespaces_are_the_same(apiserver, namespace, tmp_path):
    """One list of rules, bound in one namespace or in all of them, where kopf reads which kinds are installed, too."""
    one = rendered_rights(apiserver, namespace, tmp_path, f"watchNamespaces={{{namespace}}}", "rbac.aggregate=false")
    every = rendered_rights(apiserver, namespace, tmp_path, "rbac.aggregate=false")
    kinds = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    crds = kinds | {"verbs": ["list", "watch"]}
    rules = lambda rows: sorted(([x for x in r["rules"] if x != crds] for r in rows if "rules" in r), key=str)  # noqa: E731
    assert rules(one) == rules(every)
    nodes = [row for row in every if row["metadata"]["name"].endswith(":nodes") and "rules" in row]
    assert [crds in row["rules"] for row in nodes] == [True]
    assert not any(crds in row["rules"] for row in one if "rules" in row)
    assert {row["metadata"]["name"].rsplit("-", 1)[-1] for row in every if row["kind"][:4] == "Role"} == {"lease"}


def test_all_namespaces_are_watched_when_none_is_named(apiserver, namespace, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(apiserver.kubeconfig))
    bed = Bed(apiserver, namespace)
    with running_operator(None):
        planned(bed, on_cpu())


def test_a_wide_listing_shows_the_status(bed):
    """The printed columns are filled from the status."""
    planned(bed, on_cpu())
    bed.until_reason("qwen", "Ready", "Starting")
    row = bed.kubectl("get", "llm", "qwen", "--no-headers").split()
    assert row[:6] == ["qwen", "Qwen2-0.5B-Instruct", "0/1", "0", "Starting", "0"]


def _versions(bed: Bed) -> dict[str, str]:
    kinds = ("llm", "deployments", "services", "jobs")
    rows = [item for kind in kinds for item in bed.items(kind)]
    return {f"{row['kind']}/{row['metadata']['name']}": row["metadata"]["resourceVersion"] for row in rows}


def _writes() -> dict[tuple[str, ...], float]:
    samples = [sample for family in metrics.WRITES.collect() for sample in family.samples]
    return {(*sample.labels.values(),): sample.value for sample in samples if sample.name.endswith("_total")}


def _looks() -> float:
    samples = [sample for family in metrics.RECONCILE_SECONDS.collect() for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name.endswith("_count"))
