"""How many connections and requests one address may have, and which connection goes when there are too many. Pure.

The time is given. `connection` asks for every connection and every request; a peer is an address, which in a cluster is
one pod unless the way to the server translates addresses.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

_PEERS_REMEMBERED = 16_384
"""Addresses whose allowance is remembered, about 400 bytes each: 6 MiB."""


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """What the server gives to those who connect, whoever they are."""

    connections: int = 2048
    """Open at a time; about 20 KiB of memory each."""
    connections_per_peer: int = 64
    """A pod needs one; a node that hides its pods behind its own address has a few dozen."""
    requests_per_s: float = 50.0
    """Of one peer; 0 is no limit. A pod asks every 20 s, and every second while it waits."""
    requests_at_once: float = 200.0
    """Of one peer after a quiet time."""
    head_s: float = 5.0
    """From a connection's start, a TLS handshake included, or a later request's first byte, to the header's end."""
    body_s: float = 10.0
    """From the end of the header to the end of the body."""
    upload_s: float = 120.0
    """The same for a license file: 16 MiB at 1 Mbit/s."""
    answer_s: float = 60.0
    """From the end of a request until its answer is written."""
    idle_s: float = 30.0
    """For a client to take the rest of an answer; a connection without one is closed by uvicorn after 5 s."""
    head_bytes: int = 16 * 1024
    body_bytes: int = 16 * 1024
    """Of any request but an upload: 64 devices and four names take less than 9 KiB."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one request may take, by its path."""

    body_bytes: float
    """As it announces them; infinite where the application counts."""
    body_s: float
    answer_s: float
    """Infinite for a stream."""
    cost: float = 1.0
    """How many plain requests of a peer's rate it takes."""


AllowanceOf = Callable[[bytes], Allowance]
"""By the path of a request, as it came."""


@dataclass(slots=True)
class _Peer:
    tokens: float
    filled_s: float
    connections: int = 0


@dataclass(slots=True)
class Peers:
    """The allowance of every address that was seen lately."""

    limits: FrontLimits
    turned_away: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("peer", "rate", "time", "total"), 0))
    """Connections refused or ended: too many of a peer, too fast, too slow, too many at all."""
    _known: dict[str, _Peer] = field(default_factory=dict)

    def connect(self, peer: str, now_s: float) -> bool:
        """Count one more connection of this peer; False when it has too many or opens them too fast."""
        known = self._peer(peer, now_s)
        if known.connections >= self.limits.connections_per_peer:
            self.turned_away["peer"] += 1
            return False
        if not self._spend(known, now_s):
            return False
        known.connections += 1
        return True

    def disconnect(self, peer: str) -> None:
        """Count a connection no more."""
        if (known := self._known.get(peer)) is not None:
            known.connections -= 1

    def connections(self, peer: str) -> int:
        """How many connections a peer has."""
        known = self._known.get(peer)
        return known.connections if known else 0

    def request(self, peer: str, now_s: float, cost: float = 1.0) -> bool:
        """Count a request; False when the peer asks too fast."""
        return self._spend(self._peer(peer, now_s), now_s, cost)

    def sweep(self, now_s: float) -> None:
        """Forget the peers that have no connection and their whole allowance."""
        limits = self.limits
        whole_s = limits.requests_at_once / limits.requests_per_s if limits.requests_per_s else 0.0
        gone = [name for name, one in self._known.items() if not one.connections and now_s - one.filled_s >= whole_s]
        for name in gone:
            del self._known[name]

    def _peer(self, peer: str, now_s: float) -> _Peer:
        known = self._known.get(peer)
        if known is None:
            if len(self._known) >= _PEERS_REMEMBERED:
                self._forget_one()
            known = self._known[peer] = _Peer(self.limits.requests_at_once, now_s)
        return known

    def _forget_one(self) -> None:
        idle = next((name for name, one in self._known.items() if not one.connections), None)
        if idle is not None:
            del self._known[idle]

    def _spend(self, peer: _Peer, now_s: float, cost: float = 1.0) -> bool:
        limits = self.limits
        if not limits.requests_per_s:
            return True
        gained = (now_s - peer.filled_s) * limits.requests_per_s
        peer.tokens, peer.filled_s = min(limits.requests_at_once, peer.tokens + gained), now_s
        if peer.tokens < cost:
            self.turned_away["rate"] += 1
            return False
        peer.tokens -= cost
        return True
