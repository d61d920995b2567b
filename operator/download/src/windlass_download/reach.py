"""Which addresses a hub may lead the download to, by redirects, by links and by DNS. Pure.

A redirect stays on the endpoint's side: a public hub leads to public addresses, a hub in a private network also to
private ones. Link-local addresses, where clouds serve credentials, are never connected to.
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum

from windlass_download.errors import UserError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: the last 32 bits are an IPv4 address


class Side(IntEnum):
    """From where an address can be reached; a larger one is further inside."""

    PUBLIC = 0
    PRIVATE = 1
    HOST = 2
    NEVER = 3


def side(text: str) -> Side:
    """The side of an address; a scope (`%eth0`) is left aside, and an address inside an address is looked at itself."""
    address = _plain(ipaddress.ip_address(text.partition("%")[0]))
    if address.is_link_local or address.is_multicast:
        return Side.NEVER
    if address.is_loopback or address.is_unspecified:
        return Side.HOST
    return Side.PUBLIC if address.is_global else Side.PRIVATE


def _plain(address: IpAddress) -> IpAddress:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def literal(host: str) -> str:
    """The host when it is an address already, else nothing."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    return host


class Reach:
    """How far inside connections may lead; the endpoint's first connection decides."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._inner: Side | None = side(home) if literal(home) else None

    def allowed(self, host: str, addresses: list[str]) -> list[str]:
        """Those of a host's addresses that may be connected to; UserError when there is none."""
        if self._inner is None and host == self._home:
            self._inner = max((one for one in map(side, addresses) if one < Side.NEVER), default=Side.PUBLIC)
        most = min(self._inner or Side.PUBLIC, Side.HOST)
        usable = [address for address in addresses if side(address) <= most]
        if addresses and not usable:
            raise refused(host, addresses[0])
        return usable


def refused(host: str, address: str) -> UserError:
    """The sentence about an address that lies further inside than the endpoint."""
    where = address if host == address else f"{host[:100]} ({address})"
    return UserError(
        "HubAnswerBroken",
        f"the hub leads to {where}, a {side(address).name.lower()} address further inside than the endpoint; "
        "name a mirror in that network in spec.model.download.endpoint",
    )
