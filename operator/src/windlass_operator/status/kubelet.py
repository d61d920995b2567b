"""Pods that have a node and do not serve: the kubelet's words about images, volumes, containers, nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass_api.objects.reading import seconds_between

from windlass_operator.records.pods import ContainerStatus, Event, Pod
from windlass_operator.status.failure import Failure, cut

Words = tuple[tuple[re.Pattern[str], str], ...]


def _words(*rows: tuple[str, str]) -> Words:
    return tuple((re.compile(pattern, re.IGNORECASE), reason) for pattern, reason in rows)


WAITING_WORDS = {
    "ErrImagePull": "ImagePullFailed",
    "ImagePullBackOff": "ImagePullFailed",
    "InvalidImageName": "ImageNameInvalid",
    "ErrImageNeverPull": "ImageAbsent",
    "ImageInspectError": "ImagePullFailed",
    "RegistryUnavailable": "RegistryUnreachable",
    "CreateContainerConfigError": "ContainerConfigError",
    "CreateContainerError": "ContainerConfigError",
    "RunContainerError": "ContainerConfigError",
}
IMAGE_WORDS = _words(
    (r"invalid reference format|parse image (?:reference|name)", "ImageNameInvalid"),
    (r"no space left", "DiskFull"),
    (r"no match for platform|no child with platform|exec format", "ImageWrongArchitecture"),
    (r"unauthorized|authentication required|authorization failed|access denied|403 Forbidden|no basic auth",
     "ImageUnauthorized"),
    (r"manifest unknown|not found|does not exist", "ImageNotFound"),
    (r"no such host|timeout|timed out|connection refused|no route|unreachable|x509|tls:|deadline exceeded|\bEOF\b",
     "RegistryUnreachable"),
)  # fmt: skip
CONFIG_WORDS = _words(
    (r'secret "[^"]*" not found|in Secret ', "SecretMissing"),
    (r'configmap "[^"]*" not found|in ConfigMap ', "ConfigMapMissing"),
    (r"exec format error", "WrongArchitecture"),
    (r"executable file not found|no such file or directory.*exec|exec: ", "CommandNotFound"),
    (r"nvidia-container-cli|unresolvable CDI devices|no such device", "GpuMissing"),
    (r"no space left", "DiskFull"),
)
MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
# Several programs' words for one cause; the most telling first.
MOUNT_WORDS = _words(
    (r'secret "[^"]*" not found|references non-existent secret key', "SecretMissing"),
    (r'configmap "[^"]*" not found|references non-existent config key', "ConfigMapMissing"),
    (r"bad option; for several filesystems|unknown filesystem type|mount\.nfs: No such device", "VolumeUnsupported"),
    (r"driver name \S+ not found", "VolumeUnsupported"),
    (r"access denied by server|permission denied|operation not permitted", "VolumeDenied"),
    (r"connection refused|timed out|timeout|no route to host|unreachable|failed to resolve|name resolution",
     "VolumeUnreachable"),
    (r"no such file or directory|does not exist|hostPath type check failed", "PathNotFound"),
    (r"Multi-Attach|volume is already", "VolumeElsewhere"),
)  # fmt: skip
SANDBOX_WORDS = _words((r"no runtime for|RuntimeHandler \S+ not supported", "RuntimeClassMissing"))
OUT_OF_GPUS, OUT_OF_SLICES = "OutOfnvidia.com/gpu", "OutOfnvidia.com/mig-"  # the kubelet puts the resource behind
POD_REASONS = {
    "Evicted": "Evicted",
    "NodeLost": "NodeLost",
    "Preempting": "Preempted",
    "UnexpectedAdmissionError": "NodeRefused",
    "NodeAffinity": "NodeRefused",
    "NodeShutdown": "NodeRefused",
    "Terminated": "NodeRefused",
    "TopologyAffinityError": "NodeRefused",
    "OutOfcpu": "InsufficientCpu",
    "OutOfmemory": "InsufficientMemory",
    "OutOfpods": "TooManyPods",
    OUT_OF_GPUS: "InsufficientGpus",
}
EVICTION_WORDS = _words(
    (r"exceeds the (?:total )?limit|emptyDir volume", "CacheLimitExceeded"),
    (r"ephemeral-storage|imagefs|nodefs", "DiskFull"),
)
DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "NodeLost",
    "DeletionByPodGC": "NodeLost",
}
PROBE_KILLED = re.compile(r"failed (?:startup|liveness) probe", re.IGNORECASE)
TERMINATING_S, CREATING_S = 60.0, 180.0
PERIOD_S, TRIES = 10, 3  # of a probe that does not say


def pick(words: Words, text: str, otherwise: str) -> str:
    """The reason of the first row that matches."""
    return next((reason for pattern, reason in words if pattern.search(text)), otherwise)


def containers(pod: Pod) -> list[tuple[bool, ContainerStatus]]:
    """The statuses of all containers; the flag says whether it is an init container."""
    inits, mains = pod.status.init_container_statuses, pod.status.container_statuses
    return [*((True, row) for row in inits), *((False, row) for row in mains)]


def about(pod: Pod, events: Iterable[Event], *kinds: str) -> list[str]:
    """The messages of the pod's own warnings of those kinds, oldest first."""
    return [event.message for event in _own(pod, events) if event.reason in kinds]


def _own(pod: Pod, events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.involved_object.uid == pod.uid]


def disrupted(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """The pod's place was taken away, or never given: evicted, preempted, refused by the kubelet, its node lost."""
    word, text = pod.status.reason, cut(pod.status.message)
    cause = OUT_OF_GPUS if word.startswith(OUT_OF_SLICES) else word
    if cause in POD_REASONS:
        reason = pick(EVICTION_WORDS, text, "Evicted") if word == "Evicted" else POD_REASONS[cause]
        told = "was evicted" if word == "Evicted" else f"was refused or ended by its node ({word})"
        return Failure(reason, f"pod {pod.name} {told}: {text}")
    row = pod.condition("DisruptionTarget")
    if row is not None and row.holds and row.reason in DISRUPTIONS:
        return Failure(DISRUPTIONS[row.reason], f"pod {pod.name}: {cut(row.message)}")
    if about(pod, events, "NodeNotReady"):
        return Failure("NodeLost", f"pod {pod.name}: node {pod.spec.node_name} does not answer")
    return None


def waiting(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """A container that the kubelet cannot make: its image, its configuration."""
    for _, container in containers(pod):
        row = container.state.waiting
        reason = WAITING_WORDS.get(row.reason) if row else None
        if row is None or reason is None:
            continue
        words, name = row.message or row.reason, container.name
        if reason == "ContainerConfigError":
            reason = pick(CONFIG_WORDS, words, reason)
            return Failure(reason, f"pod {pod.name}, container {name}: {cut(words)}", name)
        # Between two tries some kubelets only say that they wait; the Event has the cause.
        told = [text for text in about(pod, events, "Failed") if "pull" in text]
        words = words if reason != "ImagePullFailed" or ":" in words or not told else told[-1]
        reason = pick(IMAGE_WORDS, words, reason) if reason == "ImagePullFailed" else reason
        return Failure(reason, f'pod {pod.name}, image "{container.image}": {cut(words)}', name)
    return None


def probe_killed(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """The kubelet said that it ends a container that did not answer its probe, in the run that ended last.

    Probes that fail are no proof: they do in every start, and again as soon as a container has ended by itself.
    """
    ends = (row.last_state.terminated for _, row in containers(pod))
    began = max((end.started_at for end in ends if end), default="")
    killed = [
        event.message
        for event in _own(pod, events)
        if event.reason == "Killing" and PROBE_KILLED.search(event.message) and event.time >= began
    ]
    if not killed:
        return None
    unwell = [text for text in about(pod, events, "Unhealthy") if not text.startswith("Readiness")]
    return Failure("ProbeFailed", f"pod {pod.name}: {cut((unwell or killed)[-1])}")


def start_is_over(pod: Pod, container: ContainerStatus, now: str) -> bool:
    """The start-up probe has had all its tries: the kubelet ends the container, however long that may take."""
    began = container.running_since
    probe = next((row.startup_probe for row in pod.spec.containers if row.name == container.name), None)
    if not probe or not began or not now:
        return False
    tries_s = (probe.period_seconds or PERIOD_S) * (probe.failure_threshold or TRIES)
    return seconds_between(began, now) >= probe.initial_delay_seconds + tries_s


def not_answering(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """A server that had answered, runs, and does not answer any more: the kubelet will restart it."""
    row = pod.condition("Ready")
    since = row.last_transition_time if row else ""
    silent = [one for one in pod.status.container_statuses if one.started and not one.ready]
    alive = [one for one in silent if (one.running_since or since) < since]  # it had been ready
    if not alive:
        return None
    unhealthy = about(pod, events, "Unhealthy")
    words = f": {cut(unhealthy[-1])}" if unhealthy else ""
    name = alive[0].name
    return Failure("NotAnswering", f"container {name} of pod {pod.name} runs and does not answer{words}", name)


def not_mounted(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """A volume that cannot be mounted is told in Events only."""
    told = about(pod, events, *MOUNT_EVENTS)
    known = [text for text in told if pick(MOUNT_WORDS, text, "")]
    if not told:
        return None
    words = (known or told)[-1]
    return Failure(pick(MOUNT_WORDS, words, "VolumeMountFailed"), f"pod {pod.name}: {cut(words)}")


def no_sandbox(pod: Pod, events: tuple[Event, ...], _now: str) -> Failure | None:
    """The pod's network or sandbox cannot be made."""
    told = about(pod, events, "FailedCreatePodSandBox")
    if not told:
        return None
    return Failure(pick(SANDBOX_WORDS, told[-1], "SandboxFailed"), f"pod {pod.name}: {cut(told[-1])}")


def stuck_creating(pod: Pod, _events: tuple[Event, ...], now: str) -> Failure | None:
    """Nothing is said and nothing happens: the kubelet or the container runtime hangs."""
    since, rows = pod.status.start_time, containers(pod)
    idle = bool(rows) and all(row.waits_for == "ContainerCreating" for _, row in rows)
    if not now or not since or not idle or seconds_between(since, now) < CREATING_S:
        return None
    return Failure(
        "StuckCreating", f"pod {pod.name}: node {pod.spec.node_name} has not made its containers for minutes"
    )


def stuck_terminating(pod: Pod, now: str) -> Failure | None:
    """A pod whose grace period is long over."""
    due = pod.metadata.deletion_timestamp
    if not due or not now or seconds_between(due, now) < TERMINATING_S:
        return None
    kept = ", ".join(pod.metadata.finalizers)
    why = f"finalizers keep it: {kept}" if kept else f"node {pod.spec.node_name} does not confirm its end"
    return Failure("StuckTerminating", f"pod {pod.name} was told to go and is still there; {why}")
