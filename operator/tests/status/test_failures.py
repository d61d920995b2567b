"""Why a pod does not run: the kubelet's, scheduler's and container's words brought to one reason."""

from __future__ import annotations

import json

import pytest
from windlass_operator.status.failures import creation_refused, diagnose, last_crash


def a_pod(name="qwen-0", *, conditions=(), containers=(), **status):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "node-1"},
        "status": {"conditions": list(conditions), "containerStatuses": list(containers), **status},
    }


def unscheduled(words):
    return a_pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}])


def waiting(reason, message=""):
    return a_pod(
        containers=[{"name": "server", "image": "i:1", "state": {"waiting": {"reason": reason, "message": message}}}]
    )


def ended(code, message="", reason="Error", restarts=0):
    terminated = {"exitCode": code, "reason": reason, "message": message}
    state = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": terminated}}
    return a_pod(containers=[{"name": "server", "restartCount": restarts, **state}])


def said(reason, message, code=1):
    return ended(code, json.dumps({"reason": reason, "message": message, "exitCode": code}))


CASES = {
    "scheduler": (unscheduled("0/3 nodes are available: 3 Insufficient memory."), "Unschedulable"),
    "no free GPU": (unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), "InsufficientGpus"),
    "claim missing": (unscheduled('persistentvolumeclaim "models" not found'), "VolumeMissing"),
    "claim unbound": (unscheduled("pod has unbound immediate PersistentVolumeClaims"), "VolumeMissing"),
    "image": (waiting("ImagePullBackOff", "Back-off pulling image"), "ImagePullFailed"),
    "image name": (waiting("InvalidImageName"), "ImagePullFailed"),
    "secret": (waiting("CreateContainerConfigError", 'secret "x" not found'), "ContainerConfigError"),
    "killed": (ended(137, reason="OOMKilled"), "OutOfMemory"),
    "no such command": (ended(128, "exec: nope: not found", reason="StartError"), "CommandNotFound"),
    "bad flag said": (said("BadFlag", "unknown flag --x", 2), "BadFlag"),
    "bad flag by code": (ended(2, "usage: …"), "BadFlag"),
    "model gone": (said("ModelMissing", "no config.json", 3), "ModelMissing"),
    "license": (said("LicenseRefused", "GPU-1 is not licensed", 4), "Unlicensed"),
    "GPU memory": (said("EngineFailed", "torch.OutOfMemoryError: CUDA out of memory."), "GpuOutOfMemory"),
    "KV cache": (
        said("EngineFailed", "(22.5 GiB KV cache is needed, which is larger than the available KV cache memory"),
        "KvCacheTooSmall",
    ),
    "disk": (ended(1, "OSError: [Errno 28] No space left on device"), "DiskFull"),
    "engine": (said("EngineFailed", "something"), "EngineFailed"),
    "an unknown word": (said("Sunspots", "hm"), "EngineFailed"),
    "again and again": (ended(1, "boom", restarts=4), "CrashLoop"),
    "evicted": (a_pod(reason="Evicted", message="The node was low on resource: memory", phase="Failed"), "Evicted"),
}


@pytest.mark.parametrize(("pod", "reason"), CASES.values(), ids=CASES)
def test_a_failure_has_its_word(pod, reason):
    failure = diagnose([pod], [])
    assert failure is not None
    assert failure.reason == reason
    assert "qwen-0" in failure.message


def test_a_crash_tells_code_count_and_the_last_words():
    failure = diagnose([ended(1, "x" * 5000 + " the cause", restarts=3)], [])
    assert (failure.container, failure.exit_code, failure.count) == ("server", 1, 3)
    assert failure.message.startswith("container server of pod qwen-0 ended with exit code 1, 3 times: …")
    assert failure.excerpt.endswith("the cause")
    assert len(failure.to_status()["excerpt"]) <= 2048
    assert failure.to_status()["remedy"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ('MountVolume.SetUp failed for volume "model": mount.nfs: No such file or directory', "PathNotFound"),
        (
            'MountVolume.SetUp failed for volume "model" : hostPath type check failed: /m is not a directory',
            "PathNotFound",
        ),
        ("MountVolume.SetUp failed: mount.nfs: Connection timed out", "VolumeMountFailed"),
    ],
)
def test_a_mount_that_fails_is_told_by_its_event(words, reason):
    pod = a_pod(phase="Pending")
    event = {"involvedObject": {"uid": "uid-qwen-0"}, "reason": "FailedMount", "message": words}
    others = {**event, "involvedObject": {"uid": "another"}, "message": "other"}
    failure = diagnose([pod], [event, others])
    assert (failure.reason, words in failure.message) == (reason, True)


def test_a_ready_pod_fails_in_nothing_but_its_last_crash_is_told():
    pod = ended(1, "boom", restarts=2)
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert diagnose([pod], []) is None
    assert last_crash([pod]).count == 2


def test_a_pod_that_is_being_deleted_is_not_looked_at():
    pod = ended(1, "boom")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert diagnose([pod], []) is None


def test_a_pod_that_just_starts_is_no_failure():
    assert diagnose([waiting("ContainerCreating")], []) is None


def test_pods_that_the_api_server_refuses_are_told_by_the_deployment():
    row = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus, requested: nvidia.com/gpu=2"}
    failure = creation_refused({"status": {"conditions": [row]}})
    assert (failure.reason, failure.message) == ("PodsForbidden", row["message"])
    assert creation_refused(None) is None
