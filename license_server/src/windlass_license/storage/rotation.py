"""Keeps every ring of the audit log within its bounds: its oldest records make room, some hundreds at a time.

Leasing and releasing in a loop writes grants without end. So a namespace that writes much makes room first, with its
own records; and the records of a lease stay while the lease lives, as long as there are others.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from windlass_license.rules.audit_rings import SHARES, Ring
from windlass_license.storage.store import AuditBounds, AuditRow, Transaction

_ROTATED_AT_ONCE = 256
"""Records that one deletion removes at most; a ring loses at most an eighth of its bound at once."""
_RECENT = 4096
"""Records of a ring whose namespaces are remembered at most, to see who writes much."""
_MUCH = 0.25
"""Of them; a namespace that wrote more makes room before all others, with what it wrote since."""
_LOOKED_AGAIN = 100
"""Rotations after which the oldest records are looked at again: some may be of leases that lived before."""


class Rotation:
    """Appends, and knows how much there is without counting the table again."""

    def __init__(self, bounds: AuditBounds, sizes: Mapping[Ring, AuditBounds]) -> None:
        self._bounds = {ring: _share(bounds, share) for ring, share in SHARES.items()}
        self._sizes = {ring: sizes.get(ring, AuditBounds(0, 0)) for ring in Ring}
        self._recent: Mapping[Ring, deque[str]] = {ring: deque() for ring in Ring}
        self._wrote: Mapping[Ring, Counter[str]] = {ring: Counter() for ring in Ring}
        self._passed: dict[tuple[Ring, str | None], int] = {}
        """The record up to which a namespace, or None for the whole ring, has made room."""
        self._rotations = 0

    def append(self, tx: Transaction, records: Sequence[AuditRow]) -> None:
        """Store these records, then forget the oldest of each ring until its bounds hold."""
        if not records:
            return
        tx.record(records)
        for row in records:
            held = self._sizes[row.ring]
            self._sizes[row.ring] = AuditBounds(held.rows + 1, held.bytes + len(row.text.encode()))
            self._remember(row)
        for ring in {row.ring for row in records}:
            self._rotate(tx, ring)

    def _remember(self, row: AuditRow) -> None:
        recent, wrote = self._recent[row.ring], self._wrote[row.ring]
        recent.append(row.namespace)
        wrote[row.namespace] += 1
        if len(recent) > self._remembered(row.ring):
            gone = recent.popleft()
            wrote[gone] -= 1
            if not wrote[gone]:
                del wrote[gone]
                self._passed.pop((row.ring, gone), None)

    def _remembered(self, ring: Ring) -> int:
        return max(1, min(_RECENT, self._bounds[ring].rows // 4))

    def _rotate(self, tx: Transaction, ring: Ring) -> None:
        most, held = self._bounds[ring], self._sizes[ring]
        count = max(1, min(_ROTATED_AT_ONCE, most.rows // 8))
        while held.rows > most.rows or held.bytes > most.bytes:
            gone = self._forget(tx, ring, count)
            held = AuditBounds(held.rows - gone.rows, held.bytes - gone.bytes) if gone.rows else AuditBounds(0, 0)
        self._sizes[ring] = held

    def _forget(self, tx: Transaction, ring: Ring, count: int) -> AuditBounds:
        """How much made room: of who writes much, else of leases that ended, else of all."""
        self._rotations += 1
        if self._rotations % _LOOKED_AGAIN == 0:
            self._passed.pop((ring, None), None)
        recent = self._remembered(ring)
        much = [name for name, number in self._wrote[ring].most_common(3) if number > _MUCH * recent]
        for namespace in (*much, None):
            behind = self._passed.get((ring, namespace))
            if behind is None:
                behind = 0 if namespace is None else tx.last_record() - recent
            gone = tx.forget_ended(ring, count, namespace, behind)
            if gone.rows:
                self._passed[ring, namespace] = gone.last
                return AuditBounds(gone.rows, gone.bytes)
        return tx.forget_oldest(ring, count)


def _share(bounds: AuditBounds, share: float) -> AuditBounds:
    return AuditBounds(max(1, int(bounds.rows * share)), max(1, int(bounds.bytes * share)))
