"""The GPUs that need a license, what is asked of a license server and what it answers, as values. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

GPUS_NAMED = 8


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPU of this container."""

    uuid: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who asks."""

    namespace: str
    pod: str
    uid: str
    service: str

    def to_dict(self) -> dict[str, str]:
        """As the request carries it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Granted:
    """The GPUs may be used until the lease runs out."""

    lease: str
    ttl_s: float
    grace_s: float
    expires: str | None
    expired: bool
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The server answered no."""

    reason: str
    message: str
    stops_serving: bool = False
    """The license forbids serving after its end, so a pod that serves ends, too."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No server answered."""

    message: str


Answer: TypeAlias = Granted | Refused | Unreachable


def holder(environment: Mapping[str, str], hostname: str) -> Holder:
    """This pod, as the operator told it by environment; outside of a cluster the host's name stands for it."""
    return Holder(
        namespace=environment.get("WINDLASS_POD_NAMESPACE", ""),
        pod=environment.get("WINDLASS_POD_NAME", hostname),
        uid=environment.get("WINDLASS_POD_UID") or hostname,
        service=environment.get("WINDLASS_SERVICE", ""),
    )


def naming(message: str, gpus: Sequence[str]) -> str:
    """The message with the GPUs in front, unless it names one of them already."""
    if not gpus or any(gpu in message for gpu in gpus):
        return message
    more = f" and {len(gpus) - GPUS_NAMED} more" if len(gpus) > GPUS_NAMED else ""
    return f"{'GPU' if len(gpus) == 1 else 'GPUs'} {', '.join(gpus[:GPUS_NAMED])}{more}: {message}"
