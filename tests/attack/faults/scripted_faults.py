"""Faults that a kind cluster cannot be given cheaply, in real kubelets', schedulers' and controllers' words.

The API server is real and the operator is whole; this module plays Job controller, scheduler and kubelet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fault_bed import Bed, Fault
from windlass_testbed.waiting import wait_until

CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip
THEN = "2026-01-01T00:00:00Z"
Text = Callable[[str], str]
Inject = Callable[[Bed, str, str], None]


def served(bed: Bed, name: str, **spec: Any) -> dict[str, Any]:
    """A service that was inspected and planned; returns its Deployment."""
    bed.service(name, **{"resources": {"gpus": 0, "memory": "4Gi"}, **spec})
    job = wait_until(lambda: next((one for one in _items(bed, "jobs") if _name(one).startswith(f"{name}-")), None))
    _inspected(bed, job)
    return wait_until(lambda: next((one for one in _items(bed, "deployments") if _name(one) == name), None))


def _inspected(bed: Bed, job: Mapping[str, Any]) -> None:
    from windlass_sizing.model.facts import from_config

    found = json.dumps({"ok": True, "facts": from_config(CONFIG, weights_bytes=988_097_824).to_dict()})
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": _name(job),
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    template = job["spec"]["template"]
    meta = {"name": f"{_name(job)}-x", "labels": template["metadata"]["labels"], "ownerReferences": [owner]}
    ended = {"exitCode": 0, "message": found, "finishedAt": THEN}
    row = {
        "name": "inspect",
        "image": "i",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    _pod(bed, meta, template["spec"], {"phase": "Succeeded", "containerStatuses": [row]})


def _pod(bed: Bed, meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    patch(bed, f"pod/{meta['name']}", status)
    return bed.get("pod", str(meta["name"]))


def replica_set(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The ReplicaSet that the Deployment controller would make, and that owns the pods."""
    meta, spec = deployment["metadata"], deployment["spec"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    made = {"name": f"{meta['name']}-1", "labels": spec["template"]["metadata"]["labels"], "ownerReferences": [owner]}
    wanted = {"replicas": 0, "selector": spec["selector"], "template": spec["template"]}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": made, "spec": wanted}


def owned(bed: Bed, deployment: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The ownerReferences of a pod of this Deployment, whose ReplicaSet is made when it is not there."""
    body = replica_set(deployment)
    bed.apply(body)
    live = bed.get("replicaset", body["metadata"]["name"])["metadata"]
    ours = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": live["name"], "uid": live["uid"]}
    return [{**ours, "controller": True}]


def patch(bed: Bed, target: str, status: Mapping[str, Any]) -> None:
    """Write a status, as controllers and kubelets do."""
    text = json.dumps({"status": status})
    bed.kubectl("-n", bed.namespace, "patch", target, "--type=merge", "--subresource=status", "-p", text)


def _items(bed: Bed, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = bed.get(kind)["items"]
    return rows


def _name(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["name"])


def pod(status: Callable[[str], Mapping[str, Any]], event: tuple[str, Text] | None = None, **more: Any) -> Inject:
    """A serving pod in this status; an Event of this reason and text about it."""

    def inject(bed: Bed, name: str, word: str) -> None:
        deployment = served(bed, name)
        template = deployment["spec"]["template"]
        meta = {"name": f"{name}-0", "labels": template["metadata"]["labels"], **more}
        meta = json.loads(json.dumps(meta).replace("WORD", word)) | {"ownerReferences": owned(bed, deployment)}
        made = _pod(bed, meta, {**template["spec"], "nodeName": f"node-{word}"}, status(word))
        if event is not None:
            _event(bed, made, event[0], event[1](word))

    return inject


def _event(bed: Bed, about: Mapping[str, Any], reason: str, message: str) -> None:
    meta = about["metadata"]
    bed.apply({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{meta['name']}.{reason.lower()}"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "namespace": bed.namespace,
                           "uid": meta["uid"]},
        "type": "Warning", "reason": reason, "message": message, "source": {"component": "kubelet"},
        "firstTimestamp": THEN, "lastTimestamp": THEN, "count": 1,
    })  # fmt: skip


def unscheduled(words: str) -> Inject:
    """The scheduler's words about a pod without a node."""

    def inject(bed: Bed, name: str, word: str) -> None:
        deployment = served(bed, name)
        template, owners = deployment["spec"]["template"], owned(bed, deployment)
        meta = {"name": f"{name}-0", "labels": template["metadata"]["labels"], "ownerReferences": owners}
        row = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": words.replace("WORD", word),
        }
        _pod(bed, meta, template["spec"], {"phase": "Pending", "conditions": [row]})

    return inject


def mount(words: str) -> Inject:
    """The kubelet's words about a volume."""
    return pod(lambda _: {"phase": "Pending"}, ("FailedMount", lambda word: words.replace("WORD", word)))


def waiting(reason: str, words: str) -> Inject:
    """A container that the kubelet cannot make."""
    return pod(lambda word: _container({"waiting": {"reason": reason, "message": words.replace("WORD", word)}}))


def ended(words: str, code: int = 1) -> Inject:
    """A container that ended with this log."""
    state = {"exitCode": code, "reason": "Error", "finishedAt": THEN}
    return pod(lambda word: _container({"terminated": {**state, "message": words.replace("WORD", word)}}))


def _container(state: Mapping[str, Any]) -> dict[str, Any]:
    row = {"name": "server", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    row["started"] = "running" in state
    return {"phase": "Pending" if "waiting" in state else "Running", "containerStatuses": [row]}


def over(reason: str, words: str) -> Inject:
    """A pod that its node ended or refused."""
    return pod(lambda word: {"phase": "Failed", "reason": reason, "message": words.replace("WORD", word)})


def disrupted(reason: str, words: str) -> Inject:
    """A pod whose place is taken away."""

    def status(word: str) -> dict[str, Any]:
        row = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": words.replace("WORD", word)}
        return {"phase": "Running", "conditions": [row]}

    return pod(status)


def deployment(type_: str, status: str, reason: str, words: str) -> Inject:
    """The Deployment controller's words."""

    def inject(bed: Bed, name: str, word: str) -> None:
        served(bed, name)
        row = {"type": type_, "status": status, "reason": reason, "message": words.replace("WORD", word)}
        patch(bed, f"deployment/{name}", {"observedGeneration": 1, "conditions": [row]})

    return inject


def stuck(bed: Bed, name: str, word: str) -> None:
    """A pod that was told to go and that a finalizer keeps."""
    keep = f"example.com/{word}"
    pod(lambda _: {"phase": "Running"}, finalizers=[keep])(bed, name, word)
    bed.cleanups.append(lambda: bed.kubectl("-n", bed.namespace, "patch", f"pod/{name}-0", "--type=merge", "-p",
                                            '{"metadata": {"finalizers": null}}'))  # fmt: skip
    bed.kubectl("-n", bed.namespace, "delete", f"pod/{name}-0", "--wait=false", "--grace-period=0", "--force")


MOUNT = 'MountVolume.SetUp failed for volume "model" : mount failed: exit status 32 Output: mount.nfs: '
FAULTS = (
    Fault("taint", "a taint that the pod does not bear", "UntoleratedTaint",
          unscheduled("0/3 nodes are available: 3 node(s) had untolerated taint {WORD: true}.")),
    Fault("too-many-pods", "full nodes", "TooManyPods",
          unscheduled("0/3 nodes are available: 3 Too many pods. WORD: 0/3 nodes are available.")),
    Fault("zone", "a volume of another zone", "VolumeElsewhere",
          unscheduled("0/3 nodes are available: 3 node(s) had volume node affinity conflict (WORD).")),
    Fault("preempted", "a pod of a higher priority", "Preempted",
          disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate pod WORD")),
    Fault("node-drained", "the node is away for minutes", "NodeLost",
          disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint WORD")),
    Fault("node-lost", "the kubelet does not answer", "NodeLost",
          pod(lambda _: _container({"running": {"startedAt": THEN}}), ("NodeNotReady", lambda _: "Node is not ready"))),
    Fault("device-plugin", "the device plugin is away", "NodeRefused",
          over("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present; cannot allocate WORD")),
    Fault("kubelet-gpus", "the kubelet has fewer GPUs than the scheduler thought", "InsufficientGpus",
          over("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: WORD")),
    Fault("evicted-memory", "the node is short of memory", "Evicted",
          over("Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: WORD")),
    Fault("evicted-disk", "the node is short of disk", "DiskFull",
          over("Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: WORD")),
    Fault("nfs-denied", "the NFS server refuses the node", "VolumeDenied",
          mount(MOUNT + "access denied by server while mounting 10.0.0.1:/WORD")),
    Fault("nfs-away", "the NFS server does not answer", "VolumeUnreachable",
          mount(MOUNT + "Connection timed out for 10.0.0.1:/WORD")),
    Fault("nfs-directory", "the NFS server has no such directory", "PathNotFound",
          mount(MOUNT + "mounting 10.0.0.1:/WORD failed, reason given by server: No such file or directory")),
    Fault("nfs-helper", "the node has no NFS client", "VolumeUnsupported",
          mount("mount: /var/lib/kubelet/WORD: bad option; for several filesystems (e.g. nfs, cifs) you might need a "
                "/sbin/mount.<type> helper program.")),
    Fault("csi-driver", "the node has no such CSI driver", "VolumeUnsupported",
          mount("MountVolume.MountDevice failed: driver name WORD not found in the list of registered CSI drivers")),
    Fault("sandbox", "the network plugin fails", "SandboxFailed",
          pod(lambda _: {"phase": "Pending"},
              ("FailedCreatePodSandBox", lambda word: f"plugin type=calico failed (add): no addresses in {word}"))),
    Fault("image-processor", "an image for another kind of processor", "ImageWrongArchitecture",
          waiting("ErrImagePull", 'failed to pull and unpack image "WORD": no match for platform in manifest')),
    Fault("image-disk", "the image does not fit on the node's disk", "DiskFull",
          waiting("ErrImagePull", "failed to extract layer WORD: write: no space left on device")),
    Fault("runtime", "the GPU's container runtime fails", "GpuMissing",
          waiting("RunContainerError", "nvidia-container-cli: device error: WORD: unknown device: no such device")),
    Fault("config-key", "a key that the Secret does not have", "SecretMissing",
          waiting("CreateContainerConfigError", "couldn't find key WORD in Secret team/token")),
    Fault("pod-security", "the namespace's Pod Security level", "PodSecurityForbidden",
          deployment("ReplicaFailure", "True", "FailedCreate",
                     'pods "WORD" is forbidden: violates PodSecurity "restricted:latest": restricted volume types')),
    Fault("service-account", "the default ServiceAccount is gone", "ServiceAccountMissing",
          deployment("ReplicaFailure", "True", "FailedCreate",
                     'pods "x" is forbidden: error looking up service account WORD/default: "default" not found')),
    Fault("webhook-denies", "a webhook denies the pods", "PolicyDenied",
          deployment("ReplicaFailure", "True", "FailedCreate",
                     'admission webhook "WORD.example.com" denied the request: no')),
    Fault("deadline", "the rollout makes no progress", "RolloutStuck",
          deployment("Progressing", "False", "ProgressDeadlineExceeded", 'ReplicaSet "WORD" has timed out.')),
    Fault("gpu-fault", "the GPU's memory is broken", "GpuFault",
          ended("RuntimeError: CUDA error: uncorrectable ECC error encountered on WORD")),
    Fault("gpu-old", "a GPU that is too old", "GpuTooOld",
          ended("RuntimeError: CUDA error: no kernel image is available for execution on the device WORD")),
    Fault("adapter", "an adapter that does not fit", "AdapterBroken",
          ended("ValueError: LoRA rank 64 is greater than max_lora_rank 16. (WORD)")),
    Fault("terminating", "a pod that does not go", "StuckTerminating", stuck, patience_s=120,
          bound="a pod is given 60 s beyond its grace period to go"),
)  # fmt: skip
SAMPLE = tuple(fault.id for fault in FAULTS if fault.id != "terminating")
