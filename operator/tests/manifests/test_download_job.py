"""The download Job: one for a target, owned by all who want it, with the token nowhere but in its environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from windlass_api.crd.v1alpha1 import LLMService
from windlass_operator.manifests.download_job import download_digest, download_job, download_labels, download_owners
from windlass_operator.manifests.inspect_job import inspect_job

GOLDEN = Path(__file__).parents[1] / "golden" / "download"
IMAGE = "windlass/operator:1.2"
PVC = {"pvc": {"claimName": "models", "path": "/qwen2-7b/"}}
QWEN = {"hub": "modelscope", "name": "qwen/Qwen2-7B-Instruct"}


def a_service(name="qwen", uid="uid-1", source=None, spec=None, **download) -> LLMService:
    model = {"id": name, "source": source or PVC, "download": {**QWEN, **download}}
    meta = {"name": name, "namespace": "team-a", "uid": uid}
    return LLMService.model_validate({"metadata": meta, "spec": {"model": model, **(spec or {})}})


ALL = {
    "hub": "huggingface",
    "revision": "refs/pr/1",
    "endpoint": "http://hub.example/hf",
    "tokenSecret": {"name": "hub"},
    "include": ["*.safetensors", "*.json"],
    "exclude": ["-odd"],
    "connections": 16,
    "fsGroup": 10001,
}
PULLS = {"image": {"pullSecrets": [{"name": "registry"}]}, "resources": {"resourceGroup": "team-a"}}
CASES = {
    "pvc": lambda: download_job([a_service()], IMAGE, "IfNotPresent"),
    "nfs": lambda: download_job(
        [a_service(source={"nfs": {"server": "10.0.0.12", "path": "/models"}})], IMAGE, "Always"
    ),
    "host-path": lambda: download_job([a_service(source={"hostPath": {"path": "/models/qwen"}})], IMAGE, "Never"),
    "all-fields": lambda: download_job(
        [a_service("b", "uid-1", spec=PULLS, **ALL), a_service("a", "uid-2", **ALL)],
        IMAGE,
        "IfNotPresent",
        {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": ".svc"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_manifest_is_as_reviewed(name):
    text = yaml.safe_dump(CASES[name](), sort_keys=False, width=120)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("WINDLASS_GOLDEN") == "write":
        path.write_text(text)
    assert path.read_text() == text


def test_every_golden_file_has_its_case():
    assert sorted(path.stem for path in GOLDEN.glob("*.yaml")) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_pod_is_restricted_and_its_volume_writable(name):
    pod = CASES[name]()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "readOnly" not in str(pod["volumes"])
    assert [mount.get("readOnly") for mount in container["volumeMounts"]] == [None, None]


def test_services_that_want_the_same_share_a_job():
    """Its name begins with the first service's, its labels are the same for all."""
    one, two = a_service("one", "uid-b"), a_service("two", "uid-a", connections=32, tokenSecret={"name": "t"})
    jobs = [download_job(services, IMAGE, "Always") for services in ([one], [two], [one, two], [two, one])]
    digest = download_digest(one)
    names = [f"{word}-download-{digest}" for word in ("one", "two", "one", "one")]
    assert [job["metadata"]["name"] for job in jobs] == names
    assert all(download_labels(two).items() <= job["metadata"]["labels"].items() for job in jobs)
    assert all(download_labels(one).items() <= job["spec"]["template"]["metadata"]["labels"].items() for job in jobs)
    assert jobs[2] == jobs[3]
    owners = jobs[2]["metadata"]["ownerReferences"]
    assert [(owner["uid"], owner["controller"]) for owner in owners] == [("uid-a", False), ("uid-b", False)]
    assert "serving.windlass.dev/service" not in jobs[2]["metadata"]["labels"]


@pytest.mark.parametrize(
    "make", [lambda one: download_job([one], IMAGE, "Always"), lambda one: inspect_job(one, IMAGE, "Always")]
)
def test_a_job_s_name_begins_with_its_service_s_and_is_a_label(make):
    """A pod's label holds the Job's name, in 63 characters; two long names stay apart."""
    names = [make(a_service(name)).get("metadata")["name"] for name in ("q", "a" * 45, "a" * 50, "a" * 49 + "b")]
    assert all(len(name) <= 63 for name in names)
    assert len({name[:60] for name in names}) == 4
    assert [name[:2] for name in names] == ["q-", "aa", "aa", "aa"]
    assert names[1].startswith(f"{'a' * 45}-")


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"pvc": {"claimName": "models", "path": "other"}}},
        {"source": {"pvc": {"claimName": "other", "path": "qwen2-7b"}}},
        {"hub": "huggingface"},
        {"name": "qwen/other"},
        {"revision": "v2"},
        {"endpoint": "http://mirror.example"},
        {"include": ["*.json"]},
        {"exclude": ["*.json"]},
    ],
    ids=str,
)
def test_another_target_or_model_is_another_job(change):
    args = {"name": "qwen", **change} if "source" in change else {}
    other = a_service(**args) if args else a_service_with(change)
    assert download_digest(other) != download_digest(a_service())


def a_service_with(download: dict) -> LLMService:
    meta = {"name": "qwen", "namespace": "team-a", "uid": "uid-1"}
    model = {"id": "qwen", "source": PVC, "download": {**QWEN, **download}}
    return LLMService.model_validate({"metadata": meta, "spec": {"model": model}})


def test_the_token_stands_in_the_environment_alone():
    job = download_job([a_service(tokenSecret={"name": "hub", "key": "k"})], IMAGE, "Always")
    container = job["spec"]["template"]["spec"]["containers"][0]
    reference = {"secretKeyRef": {"name": "hub", "key": "k"}}
    assert container["env"] == [{"name": "WINDLASS_HUB_TOKEN", "valueFrom": reference}]
    assert "hub" not in [word for word in container["args"] if "token" in word.lower()]


def test_a_service_that_downloads_nothing_has_no_job():
    meta = {"name": "qwen", "namespace": "team-a", "uid": "uid-1"}
    bare = LLMService.model_validate({"metadata": meta, "spec": {"model": {"id": "q", "source": PVC}}})
    with pytest.raises(ValueError, match="downloads nothing"):
        download_digest(bare)
    with pytest.raises(ValueError, match="without a service"):
        download_job([], IMAGE, "Always")
    assert download_owners([]) == []


def test_jobs_log_as_json_and_name_whom_they_work_for():
    """The inspect Job belongs to one service, a download to all of its namespace; with defaults nothing is added."""
    logs = {"WINDLASS_LOG_FORMAT": "json"}
    jobs = (inspect_job(a_service(), IMAGE, "Always", logs), download_job([a_service()], IMAGE, "Always", logs))
    named = [
        {row["name"]: row["value"] for row in job["spec"]["template"]["spec"]["containers"][0]["env"]} for job in jobs
    ]
    namespace = {**logs, "WINDLASS_POD_NAMESPACE": "team-a"}
    assert named == [{**namespace, "WINDLASS_SERVICE": "qwen"}, namespace]
    plain = inspect_job(a_service(), IMAGE, "Always", {})
    assert "env" not in plain["spec"]["template"]["spec"]["containers"][0]
    assert plain["metadata"]["name"] != jobs[0]["metadata"]["name"]


def test_the_volume_is_given_to_a_group_only_when_a_service_asks():
    """A shared volume's owners stay; the kubelet leaves a volume alone whose root has the group."""
    asked = download_job([a_service("a", "u1"), a_service("b", "u2", fsGroup=10001)], IMAGE, "Always")
    pods = [job["spec"]["template"]["spec"] for job in (asked, CASES["pvc"]())]
    given = [(pod["securityContext"].get("fsGroup"), pod["securityContext"].get("fsGroupChangePolicy")) for pod in pods]
    assert given == [(10001, "OnRootMismatch"), (None, None)]
    assert download_digest(a_service(fsGroup=10001)) == download_digest(a_service())


def test_a_volume_made_for_the_download_lies_near_gpus():
    """Preferred, not required; a service on CPUs goes anywhere, and so does what is no claim."""
    pod = CASES["pvc"]()["spec"]["template"]["spec"]
    (row,) = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert row["preference"]["matchExpressions"] == [{"key": "nvidia.com/gpu.product", "operator": "Exists"}]
    cpu = download_job([a_service(spec={"resources": {"gpus": 0}})], IMAGE, "Always")
    assert [job for job in (cpu, CASES["nfs"]()) if "affinity" in job["spec"]["template"]["spec"]] == []
