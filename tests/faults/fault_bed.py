"""What every fault of the corpus is injected with: one namespace, kubectl, and an LLMService whose pods cost nothing.

The pods run a shell of the operator's own image, which every node has; only what a fault is about differs from a
service that works. Standard library only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SERVICE_LABEL = "serving.windlass.dev/service"


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

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Create or change objects of any kind, in this namespace."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=json.dumps(items))

    def get(self, *words: str) -> dict[str, Any]:
        """`kubectl get … -o json` in this namespace."""
        found: dict[str, Any] = json.loads(self.kubectl("-n", self.namespace, "get", *words, "-o", "json"))
        return found

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
    fault_seconds: float | None  # from the time that the cluster itself noted, by its clock of whole seconds
    ok: bool

    def to_dict(self, where: str) -> dict[str, Any]:
        """A row of the table as JSON."""
        return {
            "id": self.fault.id, "fault": self.fault.what, "where": where, "expected": self.fault.reason,
            "reason": self.reason, "word": self.word, "message": self.message, "seconds": round(self.seconds, 1),
            "secondsFromFault": self.fault_seconds, "ok": self.ok,
        }  # fmt: skip


def watch(bed: Bed, fault: Fault, name: str, word: str, started: float) -> Result:
    """Wait for the condition with the right reason and the planted word."""
    row: dict[str, str] = {}
    while time.monotonic() - started < fault.patience_s:
        row = condition(bed.get("llm", name), fault.condition)
        if row.get("reason") in (fault.reason, *fault.also) and word in row.get("message", ""):
            seen = time.time()
            noted = noted_at(bed, name) if bed.clocked else None
            since = None if noted is None else max(0.0, round(seen - noted, 1))
            return Result(fault, word, row["reason"], row["message"], time.monotonic() - started, since, True)
        time.sleep(0.3)
    said = (row.get("reason", ""), row.get("message", ""))
    return Result(fault, word, *said, time.monotonic() - started, None, False)


def condition(service: Mapping[str, Any], type_: str) -> dict[str, str]:
    """One condition of the service; empty while it has none."""
    rows = service.get("status", {}).get("conditions", [])
    return next((row for row in rows if row["type"] == type_), {})


def noted_at(bed: Bed, name: str) -> float | None:
    """When scheduler, kubelet or container first noted the fault, in seconds since 1970; None when nobody did."""
    pods = bed.get("pods", "-l", f"{SERVICE_LABEL}={name}")["items"]
    times = [time_ for pod in pods for time_ in _noted(pod)]
    for event in bed.get("events", "--field-selector=type=Warning")["items"]:
        ours = event.get("reportingComponent") == "windlass-operator"
        when = event.get("firstTimestamp") or event.get("eventTime")
        if when and not ours and event["involvedObject"]["name"].startswith(f"{name}-"):
            times.append(when)
    found = sorted(datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC).timestamp() for text in times)
    return found[0] if found else None


def _noted(pod: Mapping[str, Any]) -> Iterator[str]:
    status = pod.get("status", {})
    for row in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in (row.get("lastState", {}), row.get("state", {})):
            ended = state.get("terminated") or {}
            if ended.get("exitCode") and row["name"] != "inspect":
                yield str(ended["finishedAt"])
    for row in status.get("conditions", ()):
        if row.get("reason") == "Unschedulable" and row.get("lastTransitionTime"):
            yield str(row["lastTransitionTime"])
