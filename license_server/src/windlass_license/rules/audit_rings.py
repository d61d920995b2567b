"""Which part of the audit log a record belongs to. Each part has a share of the log and rotates by itself. Pure.

Anybody who reaches the server can be refused as often as he likes, so refusals never make an upload or a grant go.
"""

from collections.abc import Mapping
from enum import IntEnum


class Ring(IntEnum):
    """A part of the audit log; the number is stored with each record."""

    LICENSES = 0
    """Uploads, and what a start dropped: few, and kept longest."""
    LEASES = 1
    REFUSALS = 2


SHARES: Mapping[Ring, float] = {Ring.LICENSES: 0.1, Ring.LEASES: 0.7, Ring.REFUSALS: 0.2}
"""Each ring's share of the records and of the bytes that the log may hold."""

RINGS: Mapping[str, Ring] = {
    "uploaded": Ring.LICENSES,
    "dropped": Ring.LICENSES,
    "granted": Ring.LEASES,
    "released": Ring.LEASES,
    "lapsed": Ring.LEASES,
    "refused": Ring.REFUSALS,
    "uploadRefused": Ring.REFUSALS,
}
"""The ring of each event that the log knows."""
