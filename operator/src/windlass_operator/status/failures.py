"""Why a pod does not run: the words of scheduler, kubelet and container brought to one reason of the table.

Each cause is one small function; CHECKS is their order. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass_operator.status import reasons
from windlass_operator.status.children import Object, condition_of, dig, is_ready, living, name_of, uid_of

EXCERPT_MAX = 2048
SENTENCE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure, as `status.failure` and a condition tell it."""

    reason: str
    message: str
    container: str = ""
    exit_code: int | None = None
    excerpt: str = ""
    count: int = 0

    def to_status(self) -> dict[str, Any]:
        """`status.failure` of the resource."""
        code = {} if self.exit_code is None else {"exitCode": self.exit_code}
        remedy = reasons.row(self.reason).remedy
        return {
            "reason": self.reason,
            "container": self.container,
            **code,
            "excerpt": self.excerpt or self.message[-EXCERPT_MAX:],
            "remedy": remedy,
            "count": self.count,
        }


# The scheduler's words that have a reason of their own; the first match wins.
SCHEDULER_WORDS = (
    (re.compile(r"persistentvolumeclaim .* not found|unbound immediate PersistentVolumeClaims", re.I), "VolumeMissing"),
    (re.compile(r"Insufficient nvidia\.com/gpu"), "InsufficientGpus"),
)
WAITING_WORDS = {
    "ErrImagePull": "ImagePullFailed",
    "ImagePullBackOff": "ImagePullFailed",
    "InvalidImageName": "ImagePullFailed",
    "ErrImageNeverPull": "ImagePullFailed",
    "CreateContainerConfigError": "ContainerConfigError",
    "CreateContainerError": "ContainerConfigError",
    "RunContainerError": "ContainerConfigError",
}
MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
MISSING_DIRECTORY = re.compile(r"No such file or directory|does not exist|hostPath type check failed", re.I)
STARTED_REASONS = {"StartError": "CommandNotFound", "ContainerCannotRun": "CommandNotFound", "OOMKilled": "OutOfMemory"}
SAID_REASONS = {"LicenseRefused": "Unlicensed", "EngineFailed": "EngineFailed"}
EXIT_REASONS = {2: "BadFlag", 3: "ModelMissing", 4: "Unlicensed"}
# What engines print before they end; only consulted when nothing more exact was said.
EXCERPT_REASONS = (
    (
        re.compile(r"KV cache is needed, which is larger|No available memory for the cache blocks", re.I),
        "KvCacheTooSmall",
    ),
    (re.compile(r"CUDA out of memory|OutOfMemoryError", re.I), "GpuOutOfMemory"),
    (re.compile(r"No space left on device", re.I), "DiskFull"),
)
VAGUE = ("EngineFailed", "CrashLoop")


def diagnose(pods: Iterable[Object], events: Iterable[Object]) -> Failure | None:
    """The failure of the newest pod that is not ready and has one."""
    events = tuple(events)
    for pod in living(pods):
        if not is_ready(pod):
            failure = _first(pod, events)
            if failure is not None:
                return failure
    return None


def last_crash(pods: Iterable[Object]) -> Failure | None:
    """The last crash of a pod that serves again: worth telling, though nothing is wrong now."""
    return next((crash for pod in living(pods) if (crash := _crashed(pod, ())) is not None), None)


def _first(pod: Object, events: tuple[Object, ...]) -> Failure | None:
    return next((failure for check in CHECKS if (failure := check(pod, events)) is not None), None)


def _unschedulable(pod: Object, _events: tuple[Object, ...]) -> Failure | None:
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None or scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    words = str(scheduled.get("message") or "the scheduler gave no reason")
    reason = next((reason for pattern, reason in SCHEDULER_WORDS if pattern.search(words)), "Unschedulable")
    return Failure(reason, f"pod {name_of(pod)} cannot be scheduled: {_cut(words)}")


def _evicted(pod: Object, _events: tuple[Object, ...]) -> Failure | None:
    if dig(pod, "status", "reason") != "Evicted":
        return None
    return Failure("Evicted", f"pod {name_of(pod)} was evicted: {_cut(str(dig(pod, 'status', 'message') or ''))}")


def _waiting(pod: Object, _events: tuple[Object, ...]) -> Failure | None:
    for container in _containers(pod):
        waiting = dig(container, "state", "waiting") or {}
        reason = WAITING_WORDS.get(waiting.get("reason", ""))
        if reason is not None:
            words = _cut(str(waiting.get("message") or waiting["reason"]))
            what = f'image "{container.get("image", "")}"' if reason == "ImagePullFailed" else "container"
            return Failure(reason, f"pod {name_of(pod)}, {what}: {words}", container.get("name", ""))
    return None


def _crashed(pod: Object, _events: tuple[Object, ...]) -> Failure | None:
    for container in _containers(pod):
        ended = dig(container, "state", "terminated") or dig(container, "lastState", "terminated")
        if ended and (ended.get("exitCode") or ended.get("reason") == "OOMKilled"):
            return _ended(pod, container, ended)
    return None


def _ended(pod: Object, container: Object, ended: Mapping[str, Any]) -> Failure:
    said, message = _said(str(ended.get("message") or ""))
    code = int(ended.get("exitCode") or 0)
    count = max(1, int(container.get("restartCount") or 0))
    reason = _ended_reason(said, message, ended, count)
    times = f", {count} times" if count > 1 else ""
    words = f": {_cut(message)}" if message else ""
    where = f"container {container.get('name')} of pod {name_of(pod)} ended with exit code {code}{times}"
    excerpt = message[-EXCERPT_MAX:]
    return Failure(reason, f"{where}{words}", str(container.get("name", "")), code, excerpt, count)


def _ended_reason(said: str | None, message: str, ended: Mapping[str, Any], count: int) -> str:
    """What the kubelet knows, then what the server said, then the exit code, then what the text holds."""
    if ended.get("reason") in STARTED_REASONS:
        return STARTED_REASONS[ended["reason"]]
    vague = "CrashLoop" if count > 1 else "EngineFailed"
    found = reasons.known(SAID_REASONS.get(said, said), vague) if said else None
    found = found or EXIT_REASONS.get(int(ended.get("exitCode") or 0), vague)
    if found in VAGUE:
        return next((reason for pattern, reason in EXCERPT_REASONS if pattern.search(message)), found)
    return found


def _said(text: str) -> tuple[str | None, str]:
    """The server's own one-line JSON (reason, message), else the bare text."""
    try:
        data = json.loads(text)
    except ValueError:
        return None, text.strip()
    if not isinstance(data, Mapping):
        return None, text.strip()
    return str(data.get("reason") or "") or None, str(data.get("message") or "").strip()


def _not_mounted(pod: Object, events: tuple[Object, ...]) -> Failure | None:
    about = [
        event
        for event in events
        if dig(event, "involvedObject", "uid") == uid_of(pod) and event.get("reason") in MOUNT_EVENTS
    ]
    if not about:
        return None
    words = str(about[-1].get("message") or "")
    reason = "PathNotFound" if MISSING_DIRECTORY.search(words) else "VolumeMountFailed"
    return Failure(reason, f"pod {name_of(pod)}: {_cut(words)}")


def _containers(pod: Object) -> list[Mapping[str, Any]]:
    return [*(dig(pod, "status", "initContainerStatuses") or ()), *(dig(pod, "status", "containerStatuses") or ())]


def _cut(text: str) -> str:
    """The end of a long text: the cause stands last, in tracebacks and in the kubelet's messages alike."""
    text = " ".join(text.split())
    return text if len(text) <= SENTENCE_MAX else "…" + text[-SENTENCE_MAX:]


Check = Callable[[Object, tuple[Object, ...]], Failure | None]
CHECKS: tuple[Check, ...] = (_unschedulable, _evicted, _waiting, _crashed, _not_mounted)


def creation_refused(deployment: Object | None) -> Failure | None:
    """The API server refuses the pods themselves: a quota, a security policy."""
    row = condition_of(deployment, "ReplicaFailure") if deployment else None
    if row is None or row.get("status") != "True":
        return None
    return Failure("PodsForbidden", _cut(str(row.get("message") or "pods cannot be created")))
