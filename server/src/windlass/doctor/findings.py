"""What was found on this machine, and what a check says of it: values only.

`gather` fills a `Findings`; `checks` are functions of it. A part that could not be looked at holds the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from windlass_sizing.files.checkpoint import CheckpointReport

from windlass.launch.model import LaunchPlan, Machine

GIB = 1024**3


class Outcome(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Row:
    """One check's answer: what was seen (for a skip, why it was not looked at), and what to do."""

    outcome: Outcome
    seen: str
    fix: str = ""


def ok(seen: str) -> Row:
    """All is well."""
    return Row(Outcome.OK, seen)


def warn(seen: str, fix: str) -> Row:
    """It will start, but not as well as it could, or not for long."""
    return Row(Outcome.WARN, seen, fix)


def fail(seen: str, fix: str) -> Row:
    """It will not start."""
    return Row(Outcome.FAIL, seen, fix)


def skip(reason: str) -> Row:
    """Not looked at."""
    return Row(Outcome.SKIP, reason)


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU as its driver reports it."""

    uuid: str
    name: str
    total_mib: int
    used_mib: int
    capability: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver, empty where there is none."""

    version: str = ""
    cuda: tuple[int, int] | None = None
    cards: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """The installed engine; `cuda` is what its torch was built for."""

    version: str = ""
    cuda: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """Whether a port can be opened; `why` says why not."""

    number: int
    purpose: str
    variable: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class LicenseView:
    """What a license server shows of the license in force."""

    customer: str = ""
    limit: int = 0
    expires: dict[str, datetime] = field(default_factory=dict)
    """By the GPU's UUID."""


@dataclass(frozen=True, slots=True)
class LicenseServer:
    """The first license server that answered, or why none did."""

    address: str = ""
    view: LicenseView | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of machines that serve one model; `why` says why its head was not reached."""

    size: int
    rank: int
    head: str
    port: int
    by: str
    why: str = ""
    missing_interfaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that the checks look at."""

    plan: LaunchPlan | None
    refusal: str
    """Why there is no plan."""
    machine: Machine
    engine: Engine
    driver: Driver
    checkpoint: CheckpointReport
    ports: tuple[Port, ...]
    shm_bytes: int | None
    shm_free_bytes: int | None
    host_free_bytes: int | None
    cpu_cache_gib: float | None
    license: LicenseServer | None
    """None when no license is asked for."""
    group: Group | None
    now: datetime
    serving: bool = False
    """Whether windlass already serves in this container: then ports and memory are taken by it."""
