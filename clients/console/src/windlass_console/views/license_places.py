"""Which license servers the operator's configuration names: those alone are believed to be the administrator's. Pure.

Whoever may make a Deployment in some namespace can give it the label of a license server.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from windlass_client.licenses import HOME, NAME

Place = tuple[str, str]  # namespace and name
DEFAULT: frozenset[Place] = frozenset({(HOME, NAME)})


def named_by(addresses: Iterable[str]) -> frozenset[Place]:
    """The Services that URLs as http://NAME.NAMESPACE.svc:10080 point at."""
    hosts = [(urlsplit(address).hostname or "").split(".") for address in addresses]
    return frozenset((host[1], host[0]) for host in hosts if len(host) == 2 or host[2:3] == ["svc"])


def warning_of(place: Place, addresses: Iterable[str]) -> str:
    """Why a server is not to be trusted with a license or a token; empty where the operator asks it."""
    given = tuple(addresses)
    if place in (named_by(given) if given else DEFAULT):
        return ""
    reads = f"whoever may make Deployments in namespace {place[0]} reads what is sent to it"
    if given:
        return f"the operator's configuration does not name this server, and {reads}"
    return f"this server is not in {HOME}, the operator's configuration is not known here, and {reads}"
