"""The CRD on a real API server: what it accepts, what it fills in, and the sentence with which it refuses."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.apiserver

PVC = {"pvc": {"claimName": "models", "path": "qwen2-7b"}}


def a_service(name: str = "qwen2-7b", **spec: object) -> dict[str, object]:
    model = {"id": "Qwen2-7B-Instruct", "source": PVC}
    return {
        "apiVersion": "serving.windlass.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name},
        "spec": {"model": model, **spec},
    }


def from_source(**source: object) -> dict[str, object]:
    return a_service(model={"id": "m", "source": source})


def test_a_minimal_service_is_accepted_and_completed_with_defaults(apiserver, namespace):
    """Every default that the models state is filled in by the API server."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    spec = apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"]
    assert spec == {
        "model": {"id": "Qwen2-7B-Instruct", "source": PVC},
        "image": {"family": "vllm", "version": "", "repository": "", "pullPolicy": "IfNotPresent"},
        "replicas": 1,
        "engine": {"gpuMemoryUtilizationPercent": 90, "enforceEager": False},
        "license": {"required": True},
    }


def test_a_full_service_is_accepted_as_it_is_written(apiserver, namespace):
    """No field of the models is pruned."""
    service = a_service(
        image={"family": "vllm", "version": "0.1", "repository": "r.example/windlass/server", "pullPolicy": "Never",
               "pullSecrets": [{"name": "registry"}]},
        replicas=2,
        resources={"gpuType": "L20", "gpus": 2, "cpu": 4, "memory": "64Gi", "resourceGroup": "team-a"},
        engine={"quantization": "ifq_nf4", "maxModelLen": 2048, "dtype": "float16", "gpuMemoryUtilizationPercent": 95,
                "enforceEager": True, "tensorParallelSize": 2},
        command=["run"],
        args=["--seed", "1"],
        env=[{"name": "SEED", "value": "1"}],
        license={"required": False, "addresses": ["http://licenses.example:10080"]},
    )  # fmt: skip
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(service))
    assert apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"] == service["spec"]


BAD = {
    "no source": (from_source(), "needs exactly one of pvc, nfs, hostPath"),
    "two sources": (from_source(pvc={"claimName": "a"}, hostPath={"path": "/a"}), "exactly one of pvc, nfs, hostPath"),
    "no model id": (a_service(model={"source": PVC}), "spec.model.id: Required value"),
    "no spec": ({**a_service(), "spec": None}, "spec: Required value"),
    "model id with spaces": (a_service(model={"id": "a b", "source": PVC}), "spec.model.id must begin with a letter"),
    "path that goes up": (from_source(pvc={"claimName": "a", "path": "x/../../etc"}), "path must not contain '..'"),
    "nfs path that goes up": (from_source(nfs={"server": "s", "path": "/a/.."}), "path must not contain '..'"),
    "host path not absolute": (from_source(hostPath={"path": "models"}), "spec.model.source.hostPath.path"),
    "name too long": (a_service("n" * 51), "metadata.name must have at most 50 characters"),
    "name with a dot": (a_service("qwen2.7b"), "metadata.name must be a DNS label"),
    "name that begins with a digit": (a_service("7b"), "metadata.name must be a DNS label"),
    "unknown quantization": (a_service(engine={"quantization": "int3"}),
        'spec.engine.quantization "int3" is not known; use one of fp8, ifq, ifq_nf4, smoothquant, auto, none'),
    "nf4 in bfloat16": (a_service(engine={"quantization": "ifq_nf4", "dtype": "bfloat16"}),
        "ifq_nf4 runs in float16 only"),
    "nf4 in auto": (a_service(engine={"quantization": "ifq_nf4", "dtype": "auto"}), "ifq_nf4 runs in float16 only"),
    "negative gpus": (a_service(resources={"gpus": -1}), "should be greater than or equal to 0"),
    "too many gpus": (a_service(resources={"gpus": 1025}), "should be less than or equal to 1024"),
    "gpus as text": (a_service(resources={"gpus": "two"}), "must be of type integer"),
    "memory that is no quantity": (a_service(resources={"memory": "lots"}), "spec.resources.memory"),
    "utilization above the card": (a_service(engine={"gpuMemoryUtilizationPercent": 120}), "less than or equal to 99"),
    "context of zero": (a_service(engine={"maxModelLen": 0}), "should be greater than or equal to 1"),
    "unknown dtype": (a_service(engine={"dtype": "int8"}), 'supported values: "auto", "float16", "bfloat16"'),
    "negative replicas": (a_service(replicas=-1), "should be greater than or equal to 0"),
    "a variable twice": (a_service(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), "spec.env[1]"),
    "a variable with a bad name": (a_service(env=[{"name": "1A"}]), "spec.env[0].name"),
    "license address without a scheme": (a_service(license={"addresses": ["licenses:10080"]}),
        "spec.license.addresses[0]"),
    "unknown family": (a_service(image={"family": "triton"}), 'supported values: "vllm"'),
    "unknown field": (a_service(replica=2), 'unknown field "spec.replica"'),
}  # fmt: skip


@pytest.mark.parametrize(("service", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_service_is_refused_with_the_right_words(apiserver, namespace, service, words):
    """`kubectl apply` itself says what is wrong; nothing is stored."""
    done = apiserver.apply(service, "-n", namespace, "--dry-run=server", "--validate=strict")
    assert done.returncode != 0
    assert words in done.stderr


def test_server_side_apply_keeps_two_managers_apart(apiserver, namespace):
    """A console that owns `replicas` and a user who owns `env` do not overwrite each other."""
    base = json.dumps(a_service(env=[{"name": "A", "value": "1"}]))
    apiserver.kubectl("apply", "-n", namespace, "--server-side", "--field-manager=user", "-f", "-", stdin=base)
    other = {**a_service(), "spec": {"env": [{"name": "B", "value": "2"}]}}
    text = json.dumps(other)
    apiserver.kubectl("apply", "-n", namespace, "--server-side", "--field-manager=console", "-f", "-", stdin=text)
    spec = apiserver.get("llm", "qwen2-7b", "-n", namespace)["spec"]
    assert spec["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    clash = {**other, "spec": {"model": {"id": "other"}}}
    done = apiserver.apply(clash, "-n", namespace, "--server-side", "--field-manager=console")
    assert done.returncode != 0
    assert 'conflict with "user"' in done.stderr


def test_the_status_is_a_subresource_of_its_own(apiserver, namespace):
    """A write to the resource leaves the status alone, and a write to the status the spec; the columns show both."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    condition = {
        "type": "Ready", "status": "False", "reason": "Starting", "message": "the engine loads",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    status = {"ready": "0/1", "conditions": [condition], "plan": {"gpus": 4, "tp": 4, "maxModelLen": 8192}}
    patch = json.dumps({"status": status, "spec": {"replicas": 5}})
    apiserver.kubectl("patch", "llm", "qwen2-7b", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    found = apiserver.get("llm", "qwen2-7b", "-n", namespace)
    assert (1, status) == (found["spec"]["replicas"], found["status"])
    header, row = apiserver.kubectl("get", "llm", "-n", namespace).stdout.splitlines()
    assert header.split() == ["NAME", "MODEL", "READY", "STATUS", "GPUS", "TP", "AGE"]
    assert row.split()[:6] == ["qwen2-7b", "Qwen2-7B-Instruct", "0/1", "Starting", "4", "4"]
    wide = apiserver.kubectl("get", "llm", "-n", namespace, "-o", "wide").stdout
    assert wide.splitlines()[0].split()[7:] == ["CONTEXT", "ADDRESS", "MESSAGE"]
    assert "the engine loads" in wide


def test_scale_works_through_its_subresource(apiserver, namespace):
    """`kubectl scale` writes spec.replicas; an autoscaler reads the status and the selector."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    apiserver.kubectl("scale", "llm/qwen2-7b", "-n", namespace, "--replicas=3")
    patch = json.dumps({"status": {"replicas": 2, "selector": "serving.windlass.dev/service=qwen2-7b"}})
    apiserver.kubectl("patch", "llm", "qwen2-7b", "-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    path = f"/apis/serving.windlass.dev/v1alpha1/namespaces/{namespace}/llmservices/qwen2-7b/scale"
    scale = json.loads(apiserver.kubectl("get", "--raw", path).stdout)
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "serving.windlass.dev/service=qwen2-7b"}


def test_short_names_and_categories_find_the_resource(apiserver, namespace):
    """Both short names and both categories list it."""
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(a_service()))
    for name in ("llm", "llmsvc", "llmservices", "windlass", "ai"):
        assert "qwen2-7b" in apiserver.kubectl("get", name, "-n", namespace, "-o", "name").stdout


def test_explain_tells_every_field(apiserver):
    """`kubectl explain` reads the published OpenAPI schema, which must hold the whole tree."""
    said = _eventually(lambda: apiserver.kubectl("explain", "llmservice.spec", "--recursive", check=False).stdout)
    for field in (
        "source",
        "hostPath",
        "gpuMemoryUtilizationPercent",
        "tensorParallelSize",
        "addresses",
        "pullSecrets",
    ):
        assert field in said
    one = apiserver.kubectl("explain", "llmservice.spec.resources.gpus").stdout
    assert "gpus is the number of GPUs of a replica" in one


def _eventually(ask, attempts: int = 50):
    import time  # the API server publishes a new CRD's OpenAPI a moment after it is established

    for _ in range(attempts):
        if said := ask():
            return said
        time.sleep(0.2)
    raise AssertionError("the API server publishes no schema")
