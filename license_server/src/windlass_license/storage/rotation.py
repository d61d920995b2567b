"""Keeps every ring of the audit log within its bounds: its oldest records make room, some hundreds at a time."""

from collections.abc import Mapping, Sequence

from windlass_license.rules.audit_rings import SHARES, Ring
from windlass_license.storage.store import AuditBounds, Transaction

_ROTATED_AT_ONCE = 256
"""Records that one deletion removes at most; a ring loses at most an eighth of its bound at once."""


class Rotation:
    """Appends, and knows how much there is without counting the table again."""

    def __init__(self, bounds: AuditBounds, sizes: Mapping[Ring, AuditBounds]) -> None:
        self._bounds = {ring: _share(bounds, share) for ring, share in SHARES.items()}
        self._sizes = {ring: sizes.get(ring, AuditBounds(0, 0)) for ring in Ring}

    def append(self, tx: Transaction, records: Sequence[tuple[Ring, str]]) -> None:
        """Store these records, then forget the oldest of each ring until its bounds hold."""
        if not records:
            return
        tx.record(records)
        for ring, text in records:
            held = self._sizes[ring]
            self._sizes[ring] = AuditBounds(held.rows + 1, held.bytes + len(text.encode()))
        for ring in {ring for ring, _ in records}:
            self._rotate(tx, ring)

    def _rotate(self, tx: Transaction, ring: Ring) -> None:
        most, held = self._bounds[ring], self._sizes[ring]
        while held.rows > most.rows or held.bytes > most.bytes:
            gone = tx.forget_oldest(ring, max(1, min(_ROTATED_AT_ONCE, most.rows // 8)))
            held = AuditBounds(held.rows - gone.rows, held.bytes - gone.bytes) if gone.rows else AuditBounds(0, 0)
        self._sizes[ring] = held


def _share(bounds: AuditBounds, share: float) -> AuditBounds:
    return AuditBounds(max(1, int(bounds.rows * share)), max(1, int(bounds.bytes * share)))
