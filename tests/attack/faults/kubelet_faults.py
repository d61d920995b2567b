"""The faults that a real scheduler, kubelet and container runtime are given, each with a planted word: rows only."""

from __future__ import annotations

import random

from fault_bed import Fault, source
from injections import (
    FILL,
    FILL_TMP,
    HEALTH,
    OOM,
    beside,
    in_registry,
    limit_range,
    name_taken,
    no_storage_class,
    no_volume,
    number,
    on_volume,
    other_processor,
    overlay,
    policy,
    prints,
    probe_path,
    python,
    quota,
    says,
    shard_broken,
    shard_missing,
    shell,
    spec,
    volume_elsewhere,
    webhook,
    without,
)

EVICTION = "the kubelet looks every 10 s, and tells the pod's end when its container has gone"
FAULTS = (
    # The model's directory, seen by the inspect Job.
    Fault("path-missing", "a directory that is not there", "PathNotFound", spec(model=source)),
    Fault("config-missing", "a directory without config.json", "ConfigMissing", on_volume(without("config.json"))),
    Fault("config-broken", "config.json is half a file", "ConfigBroken",
          on_volume(lambda d, w: (d / "config.json").write_text('{"model_type": ') and None)),
    Fault("shard-missing", "the index names a file that is not there", "ShardMissing", on_volume(shard_missing)),
    Fault("shard-cut", "a weight file is cut short", "ShardBroken", on_volume(shard_broken)),
    Fault("weights-missing", "no weights", "WeightsMissing", on_volume(without("model.safetensors"))),
    Fault("tokenizer-missing", "no tokenizer", "TokenizerMissing",
          on_volume(without("tokenizer.json", "tokenizer_config.json"))),
    Fault("claim-missing", "a claim that does not exist", "VolumeMissing", spec(model=lambda w: source("demo", w))),
    Fault("storage-class", "the claim's StorageClass does not exist", "StorageClassMissing", no_storage_class),
    Fault("claim-unbound", "a claim that no volume fits", "VolumeMissing", no_volume),
    Fault("volume-elsewhere", "a volume bound to another node", "VolumeElsewhere", volume_elsewhere),
    Fault("nfs", "an NFS server that is not there", "VolumeUnreachable",
          spec(model=lambda w: {"id": "demo", "source": {"nfs": {"server": "127.0.0.1", "path": f"/{w}"}}}),
          also=("VolumeUnsupported",)),  # a node without NFS in its kernel
    # Pods that are not let in.
    Fault("quota", "a ResourceQuota is used up", "QuotaExceeded", quota),
    Fault("limit-range", "more CPU than the LimitRange allows", "LimitRangeExceeded", limit_range, alone=True),
    Fault("policy", "an admission policy denies the pods", "PolicyDenied", policy),
    Fault("webhook", "an admission webhook is away", "WebhookUnavailable", webhook),
    Fault("priority-class", "a PriorityClass that does not exist", "PriorityClassMissing",
          spec(scheduling=lambda w: {"priorityClassName": w})),
    Fault("runtime-class", "a RuntimeClass that does not exist", "RuntimeClassMissing",
          spec(podTemplate=lambda w: {"spec": {"runtimeClassName": w}})),
    Fault("name-taken", "somebody's Deployment of the same name", "NameTaken", name_taken),
    # Pods without a node.
    Fault("node-selector", "labels that no node has", "NoMatchingNode",
          spec(scheduling=lambda w: {"nodeSelector": {"example.com/pool": w}})),
    Fault("memory", "more memory than any node has", "InsufficientMemory",
          spec(resources=lambda w: {"gpus": 0, "cpu": "10m", "memory": f"{w}Gi"})),
    Fault("cpu", "more CPU than any node has", "InsufficientCpu",
          spec(resources=lambda w: {"gpus": 0, "cpu": w, "memory": "64Mi"})),
    Fault("gpus", "all GPUs are taken", "InsufficientGpus",
          spec(replicas=5, resources=lambda w: {"gpus": 4, "cpu": "10m", "memory": f"{w}Mi"}), alone=True),
    Fault("scheduler", "a scheduler that does not run", "SchedulerMissing",
          spec(podTemplate=lambda w: {"spec": {"schedulerName": w}}),
          bound="a scheduler is given 7 s to say something about a pod; then our next look"),
    # Images.
    Fault("registry-away", "a registry that does not exist", "RegistryUnreachable",
          spec(image=lambda w: {"repository": f"{w}.invalid/server", "version": "1"})),
    Fault("image-missing", "an image that the registry does not have", "ImageNotFound",
          in_registry("")),
    Fault("image-denied", "a registry that wants a login", "ImageUnauthorized",
          in_registry("/private")),
    Fault("image-absent", "an image that is not on the node and never pulled", "ImageAbsent",
          spec(image=lambda w: {"repository": "windlass/absent", "version": w, "pullPolicy": "Never"})),
    Fault("image-name", "a name that no image can have", "ImageNameInvalid",
          spec(image=lambda w: {"repository": f"Windlass/{w}", "version": "1"})),
    # What is mounted and told.
    Fault("secret-env", "a variable from a Secret that does not exist", "SecretMissing",
          spec(env=lambda w: [{"name": "A", "valueFrom": {"secretKeyRef": {"name": w, "key": "k"}}}])),
    Fault("configmap-env", "a variable from a ConfigMap that does not exist", "ConfigMapMissing",
          spec(env=lambda w: [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": w, "key": "k"}}}])),
    Fault("api-keys", "API keys from a Secret that does not exist", "SecretMissing",
          spec(expose=lambda w: {"apiKeysSecret": w})),
    Fault("cache-claim", "a cache on a claim that does not exist", "VolumeMissing", spec(cache=lambda w: {"pvc": w})),
    # Containers.
    Fault("command", "a program that the image does not have", "CommandNotFound", spec(command=lambda w: [f"/{w}"])),
    Fault("processor", "a program of another kind of processor", "WrongArchitecture", other_processor),
    Fault("oom-killed", "more memory than the container's limit", "OutOfMemory",
          python(OOM, podTemplate=overlay(resources={"limits": {"memory": "64Mi"}}))),
    Fault("shm-full", "shared memory is full", "SharedMemoryFull",
          shell(lambda w: f"dd if=/dev/zero of=/dev/shm/{w} bs=1M",
                resources={"gpus": 0, "cpu": "10m", "memory": "64Mi", "sharedMemory": "8Mi"})),
    Fault("cache-limit", "more on the cache volume than its limit", "CacheLimitExceeded",
          python(FILL, cache=lambda w: {"sizeLimit": f"{w}Ki"}), patience_s=180, bound=EVICTION),
    Fault("disk-limit", "more on the node's disk than the limit", "CacheLimitExceeded",
          python(FILL_TMP, podTemplate=lambda w: overlay(resources={"limits": {"ephemeral-storage": f"{w}Ki"}})),
          patience_s=180, bound=EVICTION),
    Fault("init", "an init container that ends", "InitContainerFailed",
          beside("initContainers")),
    Fault("sidecar", "a further container that ends", "SidecarFailed",
          beside("containers")),
    Fault("startup-probe", "a server that does not come up in time", "ProbeFailed", spec(podTemplate=probe_path)),
    Fault("hangs", "a server that stops answering", "NotAnswering", python(HEALTH), patience_s=150,
          bound="a pod is unready after three failed probes, 5 s apart"),
    # The server's own words.
    Fault("flag", "a flag that the server refuses", "BadFlag", says("BadFlag", "unknown flag --{word}")),
    Fault("model", "the server finds no model", "ModelMissing", says("ModelMissing", "no config.json in {word}")),
    Fault("license", "the license server refuses and the wait is over", "Unlicensed",
          says("LicenseRefused", "GPU-{word} is not in the license")),
    Fault("start-timeout", "an engine that says nothing more", "StartTimeout",
          says("StartTimeout", "quiet after {word}")),
    Fault("ray", "Ray does not start", "RayFailed", says("RayFailed", "raylet {word} ended", members=[0])),
    Fault("member-lost", "another member went", "MemberLost",
          says("MemberLost", "member 1 at {word} went", 101, members=[1])),
    # The engine's and the drivers' words.
    Fault("cuda-memory", "the GPU's memory is full", "GpuOutOfMemory",
          prints("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {word} GiB")),
    Fault("kv-cache", "no room for one request", "KvCacheTooSmall",
          prints("ValueError: ({word} GiB KV cache is needed, which is larger than the available KV cache memory")),
    Fault("gpu-in-use", "another program holds the GPU", "GpuInUse",
          prints("ValueError: Free memory on device cuda:0 ({word}/44.5 GiB) on startup is less than desired")),
    Fault("driver", "the driver is too old", "DriverTooOld",
          prints("RuntimeError: The NVIDIA driver on your system is too old (found version {word})")),
    Fault("no-gpu", "no GPU in the container", "GpuMissing", prints("RuntimeError: No CUDA GPUs are available {word}")),
    Fault("nccl", "GPUs cannot talk to each other", "NcclFailed",
          prints("torch.distributed.DistBackendError: NCCL error in: {word}, ncclSystemError")),
    Fault("architecture", "a model that the engine does not know", "UnsupportedArchitecture",
          prints("ValueError: Model architectures ['{word}ForCausalLM'] are not supported for now.")),
    Fault("remote-code", "a model with code of its own", "RemoteCodeNeeded",
          prints("ValueError: {word} contains custom code. Please pass the argument `trust_remote_code=True`")),
    Fault("tokenizer", "a tokenizer that cannot be read", "TokenizerBroken",
          prints("OSError: Can't load tokenizer for '/data/{word}'.")),
    Fault("safetensors", "weights that the engine cannot read", "ShardBroken",
          prints("SafetensorError: Error while deserializing header of {word}: MetadataIncompleteBuffer")),
    Fault("port", "a port that is taken", "PortTaken", prints("OSError: [Errno 98] Address already in use: {word}")),
    Fault("crash", "an end that nothing explains", "EngineFailed", prints("RuntimeError: {word}"),
          also=("CrashLoop",)),  # its word from the third end on
    Fault("crash-loop", "the same end for the third time", "CrashLoop", prints("RuntimeError: {word}"),
          bound="the kubelet's back-off between the runs; EngineFailed is said meanwhile"),
    # The ways in.
    Fault("ingress", "no ingress controller", "RoutePending",
          spec(expose=lambda w: {"ingress": {"host": f"{w}.example.com"}}), condition="RouteReady"),
    Fault("gateway", "no Gateway API", "GatewayApiMissing",
          spec(expose=lambda w: {"gateway": {"parentRefs": [{"name": w}]}}), condition="RouteReady"),
    # What is refused before a pod is made.
    Fault("too-many-gpus", "more GPUs than any node has", "NotEnoughGpus", spec(resources=lambda w: {"gpus": int(w)})),
    Fault("gpu-type", "a GPU that no node has", "GpuTypeNotFound", spec(resources=lambda w: {"gpuType": w})),
    Fault("node-path", "a directory of the node that is not allowed", "NodePathForbidden",
          spec(model=lambda w: {"id": "demo", "source": {"hostPath": {"path": f"/{w}"}}})),
)  # fmt: skip
# Where only a number can be planted.
NUMBERS = {
    "limit-range": (100, 999), "memory": (2000, 9999), "cpu": (2000, 9999), "gpus": (70, 120),
    "cache-limit": (100, 999),
    "disk-limit": (1000, 9999), "hangs": (520, 599), "too-many-gpus": (100, 999), "cuda-memory": (100, 999),
    "kv-cache": (100, 999), "driver": (10000, 99999),
}  # fmt: skip
SAMPLE = ("claim-missing", "image-absent", "secret-env", "priority-class", "cuda-memory", "node-selector")


def word_for(fault: Fault) -> str:
    """A fresh word for a fault."""
    if fault.id in NUMBERS:
        return number(*NUMBERS[fault.id])
    return "".join(random.choices("bcdfghjkmnpqrstvwxz", k=9))  # noqa: S311 - a word to look for, not a secret
