"""Where the other replicas are, from the environment that the operator sets."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.errors import UsageError
from windlass.front.keys import KeyRing
from windlass.front.limits.link import key_of
from windlass.front.limits.replicas import Address, Replicas

PEERS_VARIABLE = "WINDLASS_PEERS"
"""Names whose addresses are the service's replicas, as `demo-peers.default.svc:8504`, separated by commas."""
PORT_VARIABLE = "WINDLASS_PEERS_PORT"
HOST_VARIABLE = "WINDLASS_PEERS_HOST"
PORT = 8504


def replicas(environment: Mapping[str, str], keys: KeyRing) -> Replicas:
    """This replica among those that the variables name; alone without any."""
    named = tuple(_address(word.strip()) for word in environment.get(PEERS_VARIABLE, "").split(",") if word.strip())
    port = environment.get(PORT_VARIABLE) or str(PORT)
    if not _is_port(port):
        raise UsageError(f"variable {PORT_VARIABLE} is not a port; write a number from 1 to 65535")
    secrets = Secrets(keys)
    return Replicas(named, int(port), secrets.current, environment.get(HOST_VARIABLE, ""))


class Secrets:
    """What replicas know each other by: the keys now and before, for a Secret reaches each pod at its own time."""

    def __init__(self, keys: KeyRing) -> None:
        """Nothing is read yet."""
        self._keys = keys
        self._known: tuple[bytes, ...] = ()

    def current(self) -> tuple[bytes, ...]:
        """At most two, the newer one first."""
        now = key_of(digest for key in self._keys.known() for digest in key.digests)
        if now not in self._known[:1]:
            self._known = (now, *self._known[:1])
        return self._known


def _address(word: str) -> Address:
    host, colon, port = word.rpartition(":")
    if not colon or not host or not _is_port(port):
        raise UsageError(f'variable {PEERS_VARIABLE} holds "{word}"; write NAME:PORT, separated by commas')
    return host.strip("[]"), int(port)


def _is_port(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 5 and 1 <= int(word) <= 65535
