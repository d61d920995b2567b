"""What every fault of the corpus is injected with: one namespace, kubectl, and an LLMService whose pods cost nothing.

The pods run a shell of the operator's own image, which every node has; only what a fault is about differs from a
service that works. Standard library only.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SERVICE_LABEL = "serving.windlass.dev/service"
OPERATOR = "windlass-operator"
BESIDE = ("Unhealthy", "BackOff")  # Warnings that come with many faults
LISTED_S = 0.3


@dataclass(frozen=True)
class Fault:
    """One fault: how it is injected, the word of the closed list that must follow, and where it is said.

    `inject(bed, name, word)` makes the service `name` fail so that `word` is part of the fault.
    """

    id: str
    what: str
    reason: str
    inject: Callable[[Bed, str, str], None]
    condition: str = "Ready"
    patience_s: float = 90
    alone: bool = False  # it takes what others need, so it runs by itself
    also: tuple[str, ...] = ()  # further right words, where nodes differ
    bound: str = ""  # what takes the time, where that is more than a few seconds


@dataclass
class Bed:
    """One namespace of a cluster."""

    kubectl: Callable[..., str]  # (*words, stdin=None)
    namespace: str
    image: str = "windlass/operator"
    tag: str = "dev"
    models: Path | None = None  # the folder of the shared volume, where this machine has it
    registry: str = ""  # host:port of a registry that has nothing, as the nodes reach it
    clocked: bool = True  # whether a kubelet's clock tells when a fault happened
    cleanups: list[Callable[[], object]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listed: tuple[float, list[dict[str, Any]]] = (float("-inf"), [])

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Create or change objects of any kind, in this namespace."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=json.dumps(items))

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get … -o json` in this namespace."""
        found: dict[str, Any] = json.loads(self.kubectl("-n", self.namespace, "get", *words, "-o", "json"))
        return found

    def services(self) -> list[dict[str, Any]]:
        """All LLMServices of the namespace: one look for all that watch at the same time."""
        with self._lock:
            if time.monotonic() - self._listed[0] > LISTED_S:
                self._listed = time.monotonic(), self.get("llm")["items"]
            return self._listed[1]

    def service(self, name: str, **spec: Any) -> None:
        """Apply an LLMService; what is left out is that of a service that starts on the CPU."""
        self.apply({
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": name},
            "spec": self.spec(**spec),
        })  # fmt: skip

    def spec(self, **spec: Any) -> dict[str, Any]:
        """The spec of a service that would start, with these fields in place of its own."""
        whole: dict[str, Any] = {
            "model": source("demo"),
            "image": {"repository": self.image, "version": self.tag},
            "resources": {"gpus": 0, "cpu": "10m", "memory": "64Mi"},
            "license": {"required": False},
            "command": ["sh", "-c", "sleep 3600"],
            "deployment": {"drainSeconds": 0},
        }
        return {**whole, **spec}

    def remove(self, name: str) -> None:
        """Delete the service, and end its pods at once: a shell does not listen to SIGTERM."""
        self.kubectl("-n", self.namespace, "delete", "llm", name, "--ignore-not-found", "--wait=false")
        words = ["-l", f"{SERVICE_LABEL}={name}", "--grace-period=0", "--force", "--ignore-not-found", "--wait=false"]
        self.kubectl("-n", self.namespace, "delete", "pods", *words)


def source(path: str, claim: str = "models") -> dict[str, Any]:
    """spec.model of a directory on a claim."""
    return {"id": "demo", "source": {"pvc": {"claimName": claim, "path": path}}}


@dataclass(frozen=True)
class Result:
    """What became of one fault."""

    fault: Fault
    word: str
    reason: str
    message: str
    seconds: float  # from applying the broken resource to the condition
    fault_seconds: float | None  # from the fault itself: `noted_at`, or the write that a test was
    ok: bool

    def to_dict(self, where: str) -> dict[str, Any]:
        """A row of the table as JSON."""
        return {
            "id": self.fault.id, "fault": self.fault.what, "where": where, "expected": self.fault.reason,
            "reason": self.reason, "word": self.word, "message": self.message, "seconds": round(self.seconds, 1),
            "secondsFromFault": self.fault_seconds, "bound": self.fault.bound, "ok": self.ok,
        }  # fmt: skip


def watch(bed: Bed, fault: Fault, name: str, word: str, started: float) -> Result:
    """Wait for the condition with the right reason and the planted word; the fault has just been injected."""
    row: dict[str, str] = {}
    injected = time.time()
    while time.monotonic() - started < fault.patience_s:
        row = condition(_named(bed.services(), name), fault.condition)
        if row.get("reason") in (fault.reason, *fault.also) and word in row.get("message", ""):
            seen, took_s = time.time(), time.monotonic() - started
            noted = noted_at(_notes_of(bed, name), word) if bed.clocked else injected
            since = None if noted is None else max(0.0, round(seen - noted, 1))
            return Result(fault, word, row["reason"], row["message"], took_s, since, True)
        time.sleep(LISTED_S)  # clock: how often it looks; the seconds are a figure of the report
    said = (row.get("reason", ""), row.get("message", ""))
    return Result(fault, word, *said, time.monotonic() - started, None, False)


def _named(services: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((row for row in services if row["metadata"]["name"] == name), {})


def condition(service: Mapping[str, Any], type_: str) -> dict[str, str]:
    """One condition of the service; empty while it has none."""
    rows = service.get("status", {}).get("conditions", [])
    return next((row for row in rows if row["type"] == type_), {})


@dataclass(frozen=True)
class Note:
    """One thing that the cluster itself tells of a service, and when, in seconds since 1970."""

    when: float
    text: str
    trouble: bool = True


def _notes_of(bed: Bed, name: str) -> list[Note]:
    pods = bed.get("pods", "-l", f"{SERVICE_LABEL}={name}")["items"]
    events = bed.get("events")["items"]
    return [note for pod in pods for note in _of_pod(pod)] + [one for event in events for one in _of_event(event, name)]


def noted_at(told: Iterable[Note], word: str) -> float | None:
    """When the cluster noted the fault: where it said the word, else its first trouble, else the last that it did."""
    notes = list(told)
    said = [note.when for note in notes if word in note.text] or [note.when for note in notes if note.trouble]
    return min(said) if said else max((note.when for note in notes), default=None)


def _epoch(when: object) -> float:
    return datetime.fromisoformat(str(when).replace("Z", "+00:00")).astimezone(UTC).timestamp()


def _of_event(event: Mapping[str, Any], name: str) -> Iterator[Note]:
    """Warnings of others about what the service owns; a probe's failure is the fault only where it has the word."""
    when = event.get("firstTimestamp") or event.get("eventTime")
    theirs = event.get("type") == "Warning" and event.get("reportingComponent") != OPERATOR
    if when and theirs and event["involvedObject"]["name"].startswith(f"{name}-"):
        yield Note(_epoch(when), str(event.get("message") or ""), event.get("reason") not in BESIDE)


def _of_pod(pod: Mapping[str, Any]) -> Iterator[Note]:
    """Ends of its containers, and that it has no node. What is wrong with a model is known when it was inspected."""
    status = pod.get("status", {})
    yield Note(_epoch(pod["metadata"]["creationTimestamp"]), "", trouble=False)
    for row in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in (row.get("lastState", {}), row.get("state", {})):
            ended = state.get("terminated") or {}
            text = str(ended.get("message", ""))
            good = '"ok": true' in text
            if ended.get("finishedAt"):
                yield Note(_epoch(ended["finishedAt"]), "" if good else text, row["name"] != "inspect")
    for row in status.get("conditions", ()):
        if row.get("reason") == "Unschedulable" and row.get("lastTransitionTime"):
            yield Note(_epoch(row["lastTransitionTime"]), str(row.get("message", "")))
