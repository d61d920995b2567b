"""Keeps the audit log within its bounds: the oldest records make room, some hundreds at a time."""

from collections.abc import Sequence

from windlass_license.store import AuditBounds, Transaction


class Rotation:
    """Appends, and knows how much there is without counting the table again."""

    def __init__(self, bounds: AuditBounds, size: AuditBounds) -> None:
        self._bounds, self._rows, self._bytes = bounds, size.rows, size.bytes

    def append(self, tx: Transaction, texts: Sequence[str]) -> None:
        """Store these records, then forget the oldest until the bounds hold."""
        if not texts:
            return
        tx.record(texts)
        self._rows += len(texts)
        self._bytes += sum(len(text.encode()) for text in texts)
        while self._rows > self._bounds.rows or self._bytes > self._bounds.bytes:
            gone = tx.forget_oldest()
            self._rows, self._bytes = self._rows - gone.rows, self._bytes - gone.bytes
