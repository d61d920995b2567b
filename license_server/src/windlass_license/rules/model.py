"""The words of licensing as values: license, lease, request, verdict.

Everything else speaks in these. No I/O, no clock, no web framework.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from windlass_license.dates import later
from windlass_license.rules.devices import mig_parent

DEFAULT_GRACE_S = 24 * 3600
GRACE_MAX_S = 10 * 365 * 24 * 3600
"""Ten years: longer than any server is away, and far from the end of what a date can hold."""


@dataclass(frozen=True, slots=True)
class LicensedGpu:
    """One physical GPU that was bought; `slices` are the MIG devices it was listed with."""

    uuid: str
    brand: str
    issued: datetime
    expires: datetime
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class License:
    """What one license file says. GPUs are kept in the order of their UUIDs: a license is a set."""

    appid: str
    customer: str
    limit: int
    """How many GPUs may be in use at the same time; 0 means all of them."""
    gpus: tuple[LicensedGpu, ...]
    grace_s: int = DEFAULT_GRACE_S
    """How long a serving pod goes on without this server."""
    renew_after_expiry: bool = True
    """Whether a pod that already serves when the license expires may go on."""
    serial: int = 0
    """Grows with every license that is issued; 0 in those of earlier versions."""
    answer_key: str = ""
    """The license server's public answer key as base64; empty: its answers carry no signature."""
    answer_certificate: str = ""
    """The issuer's signature over the certificate of that key."""
    _by_device: Mapping[str, LicensedGpu] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.gpus, key=lambda gpu: gpu.uuid))
        object.__setattr__(self, "gpus", ordered)
        by_device = {name: gpu for gpu in ordered for name in (*gpu.slices, gpu.uuid)}
        object.__setattr__(self, "_by_device", by_device)

    @property
    def grace(self) -> timedelta:
        """The grace as a time; a license of an earlier version may name more than ten years, and has ten."""
        return timedelta(seconds=min(self.grace_s, GRACE_MAX_S))

    def covering(self, device: str) -> LicensedGpu | None:
        """The licensed GPU that `device` (a GPU's or a MIG slice's UUID) is, or is a part of."""
        return self._by_device.get(device) or self._by_device.get(mig_parent(device) or device)

    @property
    def expires_first(self) -> datetime:
        """When the first of the GPUs expires."""
        return min(gpu.expires for gpu in self.gpus)

    @property
    def expires_last(self) -> datetime:
        """When the last of the GPUs expires: from then on nothing may start."""
        return max(gpu.expires for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who asks for GPUs: one pod. `uid` tells it from an earlier pod of the same name."""

    namespace: str
    pod: str
    uid: str
    service: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A pod's question: may these GPUs run? Order and repetition do not matter."""

    gpus: tuple[str, ...]
    holder: Holder
    most: int | None = None
    """How many devices this pod may lease at a time: as many GPUs as it requests of Kubernetes; None is any number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gpus", tuple(sorted(set(self.gpus))))


@dataclass(frozen=True, slots=True)
class Lease:
    """GPUs that one pod may use until `expires`, unless it renews before."""

    id: str
    gpus: tuple[str, ...]
    holder: Holder
    granted: datetime
    expires: datetime
    renewals: int = 0
    asked: datetime | None = None
    """When the pod asked last; None is the time of the grant."""

    def renewed(self, now: datetime, ttl: timedelta) -> "Lease":
        """This lease after one more renewal; an expiry never moves back."""
        expires = max(self.expires, later(now, ttl))
        return Lease(self.id, self.gpus, self.holder, self.granted, expires, self.renewals + 1, now)

    def prolonged(self, by: timedelta, most: timedelta) -> "Lease":
        """This lease with time given back in which nobody could renew it, up to `most` after the pod asked last."""
        last = later(self.asked or self.granted, most)
        return replace(self, expires=max(self.expires, min(later(self.expires, by), last)))

    def brought_back(self, now: datetime, ttl: timedelta) -> "Lease":
        """This lease without a time after `now`, as if it were renewed now: its times are of a false future."""
        granted, asked = min(self.granted, now), None if self.asked is None else min(self.asked, now)
        return replace(self, granted=granted, asked=asked, expires=min(self.expires, later(now, ttl)))


@dataclass(frozen=True, slots=True)
class LeaseBounds:
    """How much of the server the leases may take, whoever asks for them."""

    per_gpu: int = 48
    """Leases that share one GPU: NVIDIA's Multi-Process Service takes up to 48 clients on a GPU."""
    devices: int = 32_768
    """Device names in all leases together: 10,000 GPUs three times over, in about 64 MiB of memory."""


class State(StrEnum):
    """The outcome of one request."""

    GRANTED = "granted"
    RENEWED = "renewed"
    REFUSED = "refused"


class Refusal(StrEnum):
    """Why a lease is refused."""

    NO_LICENSE = "NoLicense"
    UNLICENSED = "Unlicensed"
    EXPIRED = "Expired"
    LIMIT_REACHED = "LimitReached"
    NOT_REQUESTED = "NotRequested"


@dataclass(frozen=True, slots=True)
class Usage:
    """How full a license is: GPUs allowed at a time, GPUs in use, pods that hold them."""

    limit: int
    in_use: int
    holders: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided, why, and about which GPUs."""

    state: State
    message: str
    gpus: tuple[str, ...]
    reason: Refusal | None = None
    expires: datetime | None = None
    """When the license of the first of these GPUs ends."""
    expired: bool = False
    stops_serving: bool = False
    """With `Expired`: the license forbids serving after its end, so a pod that serves ends, too."""
    renews: Lease | None = None
    """The lease that a renewal prolongs: a live one, or one that lapsed after its license had ended."""
    usage: Usage | None = None
    """With `LimitReached`: who is in the way."""
