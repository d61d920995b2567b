"""The leases that lapsed lately, so that a serving pod which missed a renewal is known again. Pure, bounded in memory.

Only after the end of a license does it matter: before it such a pod gets a new lease, and after it new pods get none.
Kept by `book`, asked by `gate`. A server that starts knows none: its pods get the time without it back instead.
"""

from windlass_license.rules.model import Lease, LeaseRequest

_Question = tuple[str, tuple[str, ...]]


class Lapsed:
    """Remembers leases with at most `most` device names together; the first that lapsed are forgotten first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._leases: dict[_Question, Lease] = {}
        self._questions: dict[str, _Question] = {}
        """By the lease's id."""
        self._devices = 0

    def add(self, lease: Lease) -> None:
        """Remember a lease that nobody renewed in time."""
        self.forget(lease)
        self._leases[lease.holder.uid, lease.gpus] = lease
        self._questions[lease.id] = lease.holder.uid, lease.gpus
        self._devices += len(lease.gpus)
        while self._devices > self._most:
            self.forget(next(iter(self._leases.values())))

    def find(self, request: LeaseRequest) -> Lease | None:
        """The last lease of the same pod on the same GPUs."""
        return self._leases.get((request.holder.uid, request.gpus))

    def forget(self, lease: Lease) -> None:
        """The pod gave these GPUs back, or holds them again."""
        gone = self._leases.pop((lease.holder.uid, lease.gpus), None)
        if gone is not None:
            self._devices -= len(gone.gpus)
            self._questions.pop(gone.id, None)

    def forget_id(self, lease_id: str, uid: str | None) -> None:
        """The pod gave back a lease that had lapsed; nothing happens when it is not of the pod `uid`."""
        question = self._questions.get(lease_id)
        if question is not None and uid in (None, question[0]):
            self.forget(self._leases[question])
