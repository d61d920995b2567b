"""Why a pod does not run: the kubelet's, scheduler's and container's words brought to one reason."""

from __future__ import annotations

import json

import pytest
from windlass_operator.records.base import parse
from windlass_operator.records.workloads import Deployment
from windlass_operator.status import failures
from windlass_operator.status.failures import creation_refused, diagnose_service
from windlass_testbed.cases import every_case

from .as_read import children, events, pods


def diagnose(rows, warnings, now=""):
    return failures.diagnose(pods(*rows), events(*warnings), now)


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


REQUESTS = {"cpu": "8", "memory": "36Gi", "nvidia.com/gpu": "8"}
ASKING = {"containers": [{"name": "server", "resources": {"requests": REQUESTS}}]}
CLAIM = {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "absent"}}]}
TAIL = " no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found."
SCHEDULER = {
    "GPUs alone": (
        ASKING,
        f"0/2 nodes are available: 1 node(s) had untolerated taint {{a: }}, 1 Insufficient nvidia.com/gpu.{TAIL}",
        "0/2 nodes are available: 1 node(s) had untolerated taint {a: }, 1 Insufficient nvidia.com/gpu; "
        "it asks for nvidia.com/gpu 8",
    ),
    "all that is short": (
        ASKING,
        f"0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 Insufficient nvidia.com/gpu.{TAIL}",
        "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 Insufficient nvidia.com/gpu; "
        "it asks for cpu 8, memory 36Gi, nvidia.com/gpu 8",
    ),
    "a claim that is named": (
        CLAIM,
        '0/1 nodes are available: persistentvolumeclaim "absent" not found. not found',
        '0/1 nodes are available: persistentvolumeclaim "absent" not found',
    ),
    "a claim without a volume": (
        CLAIM,
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims; it asks for claim absent",
    ),
    "a claim that is not": (
        CLAIM,
        "pod has unbound immediate PersistentVolumeClaims. preemption: not eligible",
        "pod has unbound immediate PersistentVolumeClaims; it asks for claim absent",
    ),
    "no words": (ASKING, "", "the scheduler gave no reason"),
}


@pytest.mark.parametrize(("spec", "words", "shown"), SCHEDULER.values(), ids=SCHEDULER.keys())
def test_the_schedulers_words_are_cut_to_what_helps(spec, words, shown):
    """Nothing of pods that it might end, nothing twice, and of what the pod asks for only what is short."""
    found = diagnose([unscheduled(words) | {"spec": spec}], [])
    assert found.message.endswith(f" cannot be scheduled: {shown}")


CASES = {
    "scheduler": (unscheduled("0/3 nodes are available: 3 Insufficient memory."), "InsufficientMemory"),
    "no free slice": (
        unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/mig-1g.10gb."),
        "InsufficientGpus",
    ),
    "no free GPU": (unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), "InsufficientGpus"),
    "claim missing": (unscheduled('persistentvolumeclaim "models" not found'), "VolumeMissing"),
    "claim unbound": (unscheduled("pod has unbound immediate PersistentVolumeClaims"), "VolumeMissing"),
    "image": (waiting("ImagePullBackOff", "Back-off pulling image"), "ImagePullFailed"),
    "image name": (waiting("InvalidImageName"), "ImageNameInvalid"),
    "secret": (waiting("CreateContainerConfigError", 'secret "x" not found'), "SecretMissing"),
    "secret's key": (waiting("CreateContainerConfigError", "couldn't find key k in Secret ns/x"), "SecretMissing"),
    "config": (waiting("CreateContainerConfigError", 'configmap "x" not found'), "ConfigMapMissing"),
    "no such image": (waiting("ErrImagePull", "rpc error: code = NotFound: manifest unknown"), "ImageNotFound"),
    "image denied": (
        waiting("ErrImagePull", "pull access denied, repository does not exist or may require authorization"),
        "ImageUnauthorized",
    ),
    "registry away": (waiting("ErrImagePull", "dial tcp: lookup r.invalid: no such host"), "RegistryUnreachable"),
    "other processor": (waiting("ErrImagePull", "no match for platform in manifest"), "ImageWrongArchitecture"),
    "never pulled": (waiting("ErrImageNeverPull", "Container image is not present"), "ImageAbsent"),
    "taint": (unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {a: b}."), "UntoleratedTaint"),
    "labels": (
        unscheduled(
            "0/3 nodes are available: 1 node(s) had untolerated taint {control-plane: }, "
            "2 node(s) didn't match Pod's node affinity/selector."
        ),
        "NoMatchingNode",
    ),
    "the furthest node tells": (
        unscheduled(
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."
        ),
        "InsufficientCpu",
    ),
    "volume's zone": (
        unscheduled("0/3 nodes are available: 3 node(s) had volume node affinity conflict."),
        "VolumeElsewhere",
    ),
    "kubelet refuses": (
        a_pod(reason="UnexpectedAdmissionError", message="Allocate failed due to no healthy devices", phase="Failed"),
        "NodeRefused",
    ),
    "cache limit": (
        a_pod(reason="Evicted", message='Usage of EmptyDir volume "cache" exceeds the limit "1Mi".', phase="Failed"),
        "CacheLimitExceeded",
    ),
    "preempted": (
        a_pod(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
        "Preempted",
    ),
    "start time-out": (said("StartTimeout", "nothing new for 900 s", 5), "StartTimeout"),
    "engine hangs": (said("EngineStalled", "no step for 300 s", 9), "EngineStalled"),
    "first chat": (said("FirstChatFailed", "the engine is up and answers a chat with HTTP 500", 8), "FirstChatFailed"),
    "group": (said("GroupIncomplete", "members 1 did not come", 6), "GroupIncomplete"),
    "Ray": (said("RayFailed", "raylet ended", 7), "RayFailed"),
    "member lost, by code": (ended(103, "the head went"), "MemberLost"),
    "ended well again and again": (ended(0, "bye", reason="Completed", restarts=2), "CrashLoop"),
    "killed": (ended(137, reason="OOMKilled"), "OutOfMemory"),
    "no such command": (ended(128, "exec: nope: not found", reason="StartError"), "CommandNotFound"),
    "other processor's program": (ended(255, "exec /bin/x: exec format error"), "WrongArchitecture"),
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


@every_case("pod, reason", CASES.values(), ids=CASES)
def test_a_failure_has_its_word(pod, reason):
    failure = diagnose([pod], [])
    assert failure is not None
    assert failure.reason == reason
    assert "qwen-0" in failure.message


def test_a_crash_tells_code_count_and_the_last_words():
    failure = diagnose([ended(1, "x" * 5000 + " the cause", restarts=3)], [])
    assert (failure.container, failure.exit_code, failure.count) == ("server", 1, 3)
    assert failure.message.startswith("container server of pod qwen-0 ended with exit code 1: …")
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
        ("MountVolume.SetUp failed: mount.nfs: Connection timed out", "VolumeUnreachable"),
        ("MountVolume.SetUp failed: mount.nfs: access denied by server while mounting", "VolumeDenied"),
        ("MountVolume.SetUp failed: mount: bad option; for several filesystems (e.g. nfs, cifs)", "VolumeUnsupported"),
        ('MountVolume.SetUp failed for volume "api-keys" : secret "keys" not found', "SecretMissing"),
        ("MountVolume.SetUp failed: the disk is on fire", "VolumeMountFailed"),
    ],
)
def test_a_mount_that_fails_is_reported_by_its_event(words, reason):
    pod = a_pod(phase="Pending")
    event = {"involvedObject": {"uid": "uid-qwen-0"}, "reason": "FailedMount", "message": words}
    others = {**event, "involvedObject": {"uid": "another"}, "message": "other"}
    failure = diagnose([pod], [event, others])
    assert (failure.reason, words in failure.message) == (reason, True)


def test_a_ready_pod_fails_in_nothing_but_its_last_crash_is_reported():
    pod = ended(1, "boom", restarts=2)
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert diagnose([pod], []) is None
    assert failures.last_crash(pods(pod)).count == 2


def test_a_pod_that_is_being_deleted_is_not_looked_at():
    pod = ended(1, "boom")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert diagnose([pod], []) is None


def test_a_pod_that_just_starts_is_no_failure():
    assert diagnose([waiting("ContainerCreating")], []) is None


REFUSED = {
    "exceeded quota: gpus, requested: nvidia.com/gpu=2": "QuotaExceeded",
    "maximum memory usage per Container is 1Gi, but request is 4Gi": "LimitRangeExceeded",
    'violates PodSecurity "restricted:latest": hostPath volumes': "PodSecurityForbidden",
    "no PriorityClass with name high was found": "PriorityClassMissing",
    'pod rejected: RuntimeClass "gvisor" not found': "RuntimeClassMissing",
    'error looking up service account a/default: serviceaccount "default" not found': "ServiceAccountMissing",
    'failed calling webhook "w.x": no endpoints available': "WebhookUnavailable",
    'admission webhook "w.x" denied the request: no': "PolicyDenied",
    "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no": "PolicyDenied",
    "something new": "PodsForbidden",
}


@pytest.mark.parametrize(("words", "reason"), REFUSED.items(), ids=REFUSED.values())
def test_pods_that_the_api_server_refuses_are_reported_by_the_deployment(words, reason):
    row = {"type": "ReplicaFailure", "status": "True", "message": words}
    failure = creation_refused(parse(Deployment, {"status": {"conditions": [row]}}))
    assert (failure.reason, failure.message) == (reason, words)
    assert creation_refused(None) is None


def test_a_refused_group_is_reported_by_its_events():
    """A StatefulSet has no condition for it."""
    group = {"metadata": {"name": "qwen-0", "uid": "set"}, "spec": {"replicas": 2}}
    event = {"involvedObject": {"uid": "set"}, "reason": "FailedCreate", "message": "exceeded quota: q"}
    told = diagnose_service(children(stateful_sets=(group,), events=(event,)), False, NOW)
    assert told.reason == "QuotaExceeded"


NOW, EARLIER = "2026-01-01T00:10:00Z", "2026-01-01T00:00:00Z"


def test_a_pod_that_no_scheduler_looks_at_is_reported_after_a_while():
    pod = a_pod(phase="Pending")
    pod["spec"] = {"schedulerName": "gang"}
    assert diagnose([pod], [], "2026-01-01T00:00:05Z") is None
    assert diagnose([pod], [], "2026-01-01T00:00:07Z").reason == "SchedulerMissing"
    failure = diagnose([pod], [], NOW)
    assert (failure.reason, '"gang"' in failure.message) == ("SchedulerMissing", True)


def test_a_server_that_stopped_answering_is_reported():
    """It had been ready in this run, it runs, and it is ready no more."""
    row = {
        "name": "server",
        "started": True,
        "ready": False,
        "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}},
    }
    pod = a_pod(containers=[row], conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": EARLIER}])
    probe = {
        "involvedObject": {"uid": "uid-qwen-0"},
        "reason": "Unhealthy",
        "message": "Readiness probe failed: timeout",
    }
    failure = diagnose([pod], [probe], NOW)
    assert (failure.reason, "Readiness probe failed: timeout" in failure.message) == ("NotAnswering", True)
    row["state"]["running"]["startedAt"] = NOW
    assert diagnose([pod], [], NOW) is None, "this run has not answered yet"


UNWELL = {"involvedObject": {"uid": "uid-qwen-0"}, "reason": "Unhealthy", "message": "Liveness probe failed: EOF"}
KILLING = {**UNWELL, "reason": "Killing", "message": "Container server failed liveness probe, will be restarted"}


def test_a_probe_s_kill_is_no_crash():
    failure = diagnose([ended(137, restarts=1)], [UNWELL, KILLING])
    assert (failure.reason, "EOF" in failure.message) == ("ProbeFailed", True)
    assert diagnose([ended(1, "boom", restarts=1)], [UNWELL, KILLING]).reason == "EngineFailed"


@every_case("code", [2, 4, 6, 9, 101, 127])
@every_case("kind, reason", [("containerStatuses", "SidecarFailed"), ("initContainerStatuses", "InitContainerFailed")])
def test_an_exit_code_of_a_program_of_others_means_nothing(kind, reason, code):
    terminated = {"exitCode": code, "reason": "Error", "message": "plugh"}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = {"name": "further", "restartCount": 3, "state": state, "lastState": {"terminated": terminated}}
    failure = diagnose([a_pod(**{kind: [status]})], [])
    assert (failure.reason, failure.message) == (
        reason, f"container further of pod qwen-0 ended with exit code {code}: plugh",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("code", "words"), [(137, "137 (SIGKILL, mostly for want of memory)"), (135, "(SIGBUS, as when")]
)
def test_a_signal_has_its_name(code, words):
    """The node's runtime does not always know that the kernel killed for memory."""
    assert words in diagnose([ended(code)], []).message


def test_a_probe_that_fails_is_no_kill():
    """One does in every start, and after every end."""
    assert diagnose([ended(137, restarts=1)], [UNWELL]).reason == "EngineFailed"


def test_a_kill_of_an_earlier_run_is_not_the_last_end_s_cause():
    pod = ended(137, restarts=2)
    pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = NOW
    assert diagnose([pod], [UNWELL, {**KILLING, "lastTimestamp": EARLIER}]).reason == "CrashLoop"
    assert diagnose([pod], [UNWELL, {**KILLING, "lastTimestamp": NOW}]).reason == "ProbeFailed"


def test_a_pod_that_stays_is_reported_with_what_keeps_it():
    pod = a_pod(phase="Running")
    pod["metadata"] |= {"deletionTimestamp": EARLIER, "finalizers": ["example.com/keep"]}
    told = diagnose_service(children(pods=(pod,)), False, NOW)
    assert (told.reason, "example.com/keep" in told.message) == ("StuckTerminating", True)
    assert diagnose_service(children(pods=(pod,)), False, "2026-01-01T00:00:30Z") is None


def test_an_evicted_pod_tells_nothing_once_all_replicas_answer():
    gone = a_pod(reason="Evicted", message="low on memory", phase="Failed")
    assert diagnose_service(children(pods=(gone,)), False, NOW).reason == "Evicted"
    assert diagnose_service(children(pods=(gone,)), True, NOW) is None


def a_member(index, state, uid="set"):
    pod = a_pod(f"qwen-0-{index}", containers=[{"name": "server", "restartCount": 0, **state}])
    pod["metadata"] |= {
        "labels": {"apps.kubernetes.io/pod-index": str(index)},
        "ownerReferences": [{"uid": uid, "controller": True}],
    }
    return pod


def member_ended(index, code, reason, at, **words):
    message = json.dumps({"reason": reason, "message": f"words of {index}", "exitCode": code, **words})
    return a_member(index, {"state": {"terminated": {"exitCode": code, "message": message, "finishedAt": at}}})


def a_group(*pods):
    rows = {"metadata": {"name": "qwen-0", "uid": "set"}, "spec": {"replicas": len(pods)}}
    return children(stateful_sets=(rows,), pods=pods)


def test_of_a_group_the_member_that_failed_by_itself_is_reported():
    """The head ended with it, earlier on the clock of its node; it says so itself."""
    head = member_ended(0, 101, "MemberLost", "2026-01-01T00:00:01Z", members=[1])
    culprit = member_ended(1, 1, "EngineFailed", "2026-01-01T00:00:02Z", excerpt="CUDA out of memory")
    told = diagnose_service(a_group(head, culprit), False, NOW)
    assert (told.reason, "qwen-0-1" in told.message) == ("GpuOutOfMemory", True)


def test_of_a_group_whose_member_is_gone_the_others_name_it():
    head = member_ended(0, 101, "MemberLost", "2026-01-01T00:00:01Z", members=[1])
    told = diagnose_service(a_group(head, a_member(1, {"state": {"running": {}}})), False, NOW)
    assert (told.reason, "member 1 went first" in told.message) == ("MemberLost", True)


def test_of_a_group_that_waits_the_member_that_cannot_start_is_reported():
    head = member_ended(0, 6, "GroupIncomplete", "2026-01-01T00:00:01Z", members=[1])
    waits = {"state": {"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}}}
    told = diagnose_service(a_group(head, a_member(1, waits)), False, NOW)
    assert told.reason == "ImageAbsent"
