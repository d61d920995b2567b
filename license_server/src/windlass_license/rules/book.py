"""The live leases in memory, counted as the gate asks for them, and what has changed since they were last stored.

One question costs the same with ten leases and with ten thousand. Pure: the time is given, nothing is read or written.
`service` keeps one book, fills it from the store and writes its changes back.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from windlass_license.rules.devices import is_device
from windlass_license.rules.lapsed import Lapsed
from windlass_license.rules.model import Lease, LeaseBounds, LeaseRequest, License

LEASE_BOUNDS = LeaseBounds()
_Question = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class Changes:
    """Leases to insert, to update and to delete, so that the store equals the book."""

    added: dict[str, Lease] = field(default_factory=dict)
    renewed: dict[str, Lease] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class LeaseBook:
    """Every live lease under the license in force."""

    def __init__(
        self,
        license_: License | None,
        leases: Iterable[Lease] = (),
        bounds: LeaseBounds = LEASE_BOUNDS,
        lapsed: Lapsed | None = None,
    ) -> None:
        self._leases: dict[str, Lease] = {}
        self._by_question: dict[_Question, str] = {}
        self._by_uid: defaultdict[str, set[str]] = defaultdict(set)
        self._ends: list[tuple[datetime, str]] = []
        self._holders: Counter[str] = Counter()
        self._in_use: Counter[str] = Counter()
        self._devices = 0
        self._license = license_
        self.bounds = bounds
        self.lapsed = Lapsed(bounds.devices) if lapsed is None else lapsed
        self.changes = Changes()
        for lease in leases:
            self.add(lease)
        self.changes = Changes()

    @property
    def license(self) -> License | None:
        """The license in force."""
        return self._license

    @property
    def in_use(self) -> Mapping[str, int]:
        """Physical GPUs in use, and by how many leases each."""
        return self._in_use

    @property
    def holders(self) -> Mapping[str, int]:
        """Pods that hold leases, the longest-serving first, and how many each."""
        return self._holders

    @property
    def devices(self) -> int:
        """Device names in all leases together."""
        return self._devices

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def held(self, request: LeaseRequest) -> Lease | None:
        """The lease that `request` would renew: the same pod, the same GPUs."""
        lease_id = self._by_question.get((request.holder.uid, request.gpus))
        return None if lease_id is None else self._leases[lease_id]

    def devices_of(self, uid: str) -> set[str]:
        """The devices in all leases of one pod."""
        return {gpu for lease_id in self._by_uid.get(uid, ()) for gpu in self._leases[lease_id].gpus}

    def add(self, lease: Lease) -> None:
        """Count a granted lease."""
        self._leases[lease.id] = lease
        self._by_question[lease.holder.uid, lease.gpus] = lease.id
        self._by_uid[lease.holder.uid].add(lease.id)
        heapq.heappush(self._ends, (lease.expires, lease.id))
        self._holders[str(lease.holder)] += 1
        self._in_use.update(self._gpus(lease))
        self._devices += len(lease.gpus)
        self.changes.added[lease.id] = lease

    def renew(self, lease: Lease) -> None:
        """Put a later version of a lease in the place of the earlier one, which may have lapsed."""
        if lease.id not in self._leases:
            self.add(lease)
            return
        self._leases[lease.id] = lease
        fresh = self.changes.added if lease.id in self.changes.added else self.changes.renewed
        fresh[lease.id] = lease

    def take(self, lease_id: str, uid: str | None = None) -> Lease | None:
        """Remove a lease and return it; None when there is no such lease, or it is not of the pod `uid`.

        One that has lapsed is forgotten: no pod serves on it any more.
        """
        lease = self._leases.get(lease_id)
        if lease is None:
            self.lapsed.forget_id(lease_id, uid)
            return None
        if uid not in (None, lease.holder.uid):
            return None
        self.lapsed.forget(lease)
        del self._leases[lease_id]
        del self._by_question[lease.holder.uid, lease.gpus]
        self._by_uid[lease.holder.uid].discard(lease_id)
        if not self._by_uid[lease.holder.uid]:
            del self._by_uid[lease.holder.uid]
        _uncount(self._holders, (str(lease.holder),))
        _uncount(self._in_use, self._gpus(lease))
        self._devices -= len(lease.gpus)
        self.changes.renewed.pop(lease_id, None)
        if self.changes.added.pop(lease_id, None) is None:
            self.changes.gone.add(lease_id)
        return lease

    def take_lapsed(self, now: datetime) -> list[Lease]:
        """Remove, remember and return the leases that nobody renewed in time, in the order in which they ended."""
        lapsed = list[Lease]()
        while self._ends and self._ends[0][0] <= now:
            _, lease_id = heapq.heappop(self._ends)
            lease = self._leases.get(lease_id)
            if lease is None:
                continue
            if lease.expires > now:  # renewed since: its end is looked up again only now, once a lease and TTL
                heapq.heappush(self._ends, (lease.expires, lease_id))
            else:
                self.take(lease_id)
                lapsed.append(lease)
        lapsed.sort(key=lambda one: one.expires)
        for lease in lapsed:
            self.lapsed.add(lease)
        return lapsed

    def live(self, now: datetime) -> tuple[int, int]:
        """How many leases and GPUs are live at `now`, whether or not the lapsed ones were dropped yet.

        The book's own counts, less what has lapsed since. Another thread than the book's own may ask.
        """
        leases, gpus = len(self._leases), len(self._in_use)
        ended = {lease_id for end, lease_id in list(self._ends) if end <= now}
        named = [lease for lease_id in ended if (lease := self._leases.get(lease_id)) is not None]
        lapsed = [lease for lease in named if lease.expires <= now]
        free = Counter(gpu for lease in lapsed for gpu in self._gpus(lease))
        return leases - len(lapsed), gpus - sum(self._in_use[gpu] <= count for gpu, count in free.items())

    def take_changes(self) -> Changes:
        """What to store; the book counts anew from here."""
        changes, self.changes = self.changes, Changes()
        return changes

    def give_back(self, absence: timedelta, since: datetime, most: timedelta) -> None:
        """Prolong the leases that were live at `since` by time in which they could not be renewed.

        No lease lives longer than `most` after its pod asked last: the pod has stopped by itself then.
        """
        for lease in list(self._leases.values()):
            if lease.expires > since:
                self.renew(lease.prolonged(absence, most))

    def bring_back(self, now: datetime, ttl: timedelta) -> None:
        """Take the leases out of a false future: each is as if its pod had asked at `now`."""
        for lease in list(self._leases.values()):
            if (true := lease.brought_back(now, ttl)) != lease:
                self.take(lease.id)  # stored anew as a whole: a renewal leaves the time of the grant as it was
                self.add(true)

    def take_excess(self) -> list[Lease]:
        """Remove and return the leases beyond the bounds, the youngest first to go, and those with unusable names."""
        kept, excess, devices = Counter[str](), list[Lease](), 0
        for lease in sorted(self, key=lambda one: one.granted):
            gpus = self._gpus(lease)
            devices += len(lease.gpus)
            fits = devices <= self.bounds.devices and all(kept[gpu] < self.bounds.per_gpu for gpu in gpus)
            if fits and all(map(is_device, lease.gpus)):
                kept.update(gpus)
            else:
                devices -= len(lease.gpus)
                excess.append(lease)
        for lease in excess:
            self.take(lease.id)
        return excess

    def install(self, license_: License | None) -> None:
        """Count the same leases under another license: MIG devices may belong to other GPUs now."""
        self._license = license_
        self._in_use = Counter(gpu for lease in self for gpu in self._gpus(lease))

    def _gpus(self, lease: Lease) -> set[str]:
        return {physical(self._license, gpu) for gpu in lease.gpus}


def physical(license_: License | None, device: str) -> str:
    """The GPU that a device counts as; a device of an earlier license counts as itself."""
    gpu = license_.covering(device) if license_ is not None else None
    return device if gpu is None else gpu.uuid


def _uncount(counter: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counter[name] -= 1
        if not counter[name]:
            del counter[name]
