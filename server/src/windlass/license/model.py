"""What is asked of a license server and what it answers, as values. No behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias

ADDRESS_VARIABLES = ("WINDLASS_LS_ADDR", "TACO_LS_ADDR")
DEFAULT_ADDRESSES = (
    "http://windlass-license-server.kube-system.svc.cluster.local:10080",
    "http://windlass-license-server:10080",
    "http://taco-license-server.kube-system.svc.cluster.local:10080",
)


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


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No server answered."""

    message: str


Answer: TypeAlias = Granted | Refused | Unreachable


def addresses(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where to ask, in order: the first variable that is set, else the default names of the Service."""
    for variable in ADDRESS_VARIABLES:
        said = tuple(part for word in environment.get(variable, "").split(",") if (part := word.strip()))
        if said:
            return tuple(_url(address) for address in said)
    return DEFAULT_ADDRESSES


def holder(environment: Mapping[str, str], hostname: str) -> Holder:
    """This pod, as the operator told it by environment; outside of a cluster the host's name stands for it."""
    return Holder(
        namespace=environment.get("WINDLASS_POD_NAMESPACE", ""),
        pod=environment.get("WINDLASS_POD_NAME", hostname),
        uid=environment.get("WINDLASS_POD_UID") or hostname,
        service=environment.get("WINDLASS_SERVICE", ""),
    )


def _url(address: str) -> str:
    return (address if "://" in address else f"http://{address}").rstrip("/")
