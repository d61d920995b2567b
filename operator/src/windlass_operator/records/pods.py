"""Pods, as the kubelet and the scheduler describe them, and Events. Pure."""

from __future__ import annotations

import msgspec

from windlass_operator.records.base import Condition, Count, Int32, Part, Record, condition

Quantity = str | int  # the API server writes text


class Probe(Part, frozen=True):
    """A container's probe; 0 where it leaves a number to Kubernetes' default."""

    period_seconds: Count = 0
    failure_threshold: Count = 0
    initial_delay_seconds: Count = 0


class Resources(Part, frozen=True):
    """Limits and requests by resource."""

    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class Container(Part, frozen=True):
    """A container of the spec."""

    name: str = ""
    resources: Resources = Resources()
    startup_probe: Probe | None = None


class ClaimSource(Part, frozen=True):
    """A volume's PersistentVolumeClaim."""

    claim_name: str = ""


class Volume(Part, frozen=True):
    """A volume of the spec."""

    persistent_volume_claim: ClaimSource | None = None


class SchedulingGate(Part, frozen=True):
    """Why the scheduler leaves the pod alone for now."""

    name: str = ""


class PodSpec(Part, frozen=True):
    """What the pod asks for, and its node once it has one."""

    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class Waiting(Part, frozen=True):
    """A container that has not started."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True):
    """A container that runs."""

    started_at: str = ""


class Terminated(Part, frozen=True):
    """A container that has ended; `message` is its termination message."""

    exit_code: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: str = ""
    finished_at: str = ""


class ContainerState(Part, frozen=True):
    """One of the three; none before the kubelet has looked."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True):
    """A container as the kubelet sees it, and how its run before this one ended."""

    name: str = ""
    image: str = ""
    ready: bool = False
    started: bool = False
    restart_count: Count = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()

    @property
    def waits_for(self) -> str:
        """Why it waits to start, in the kubelet's word; empty when it does not wait."""
        return self.state.waiting.reason if self.state.waiting else ""

    @property
    def running_since(self) -> str:
        """When its present run began; empty when it does not run."""
        return self.state.running.started_at if self.state.running else ""


class PodStatus(Part, frozen=True):
    """How far the pod is."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Record, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, or None."""
        return condition(self.status.conditions, type_)

    @property
    def is_over(self) -> bool:
        """Whether all its containers have ended for good."""
        return self.status.phase in ("Failed", "Succeeded")

    @property
    def is_ready(self) -> bool:
        """Whether the kubelet calls the pod ready."""
        row = self.condition("Ready")
        return row is not None and row.holds

    def label(self, key: str) -> str:
        """A label's value; empty where there is none."""
        return self.metadata.labels.get(key, "")


class Reference(Part, frozen=True):
    """The object that an Event is about."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(Record, frozen=True):
    """An Event of another component; the API server writes null for a time that it does not have."""

    type: str = ""
    reason: str = ""
    message: str = ""
    involved_object: Reference = Reference()
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def time(self) -> str:
        """When it happened last, RFC 3339; empty where nobody wrote it."""
        return self.last_timestamp or self.event_time or ""
