"""Where the engine may connect to for media: the address behind an allowed name, looked at when it is connected to.

`media` allows names; a name may resolve to any address, and to another one a moment later (DNS rebinding). So the
engine's HTTP client gets sockets only for addresses that `objection` allows. Imports no engine: what is not loaded is
not changed.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

AddressInfo: TypeAlias = tuple[int, int, int, str, tuple[Any, ...]]
"""As of `socket.getaddrinfo`."""
CLIENT = "vllm.connections"
"""The engine's module whose `global_http_connection` fetches media."""
PROXIES = ("http_proxy", "https_proxy", "all_proxy")
LOCAL = "localhost"


def objection(address: str, domains: Collection[str]) -> str:
    """Why media may not be fetched from an address; empty when it may.

    The machine itself only where `localhost` is listed; private addresses only where every name is listed whole; the
    addresses of a link, of groups and reserved ones never.
    """
    one = ipaddress.ip_address(address.partition("%")[0])
    one = getattr(one, "ipv4_mapped", None) or one
    if one.is_loopback:
        return "" if LOCAL in domains else f"{one} is this machine"
    if one.is_link_local or one.is_multicast or one.is_unspecified or one.is_reserved:
        return f"{one} is of a link, a group or reserved"
    if not one.is_global and any(domain.startswith("*.") for domain in domains):
        return f"{one} is private, and a name with a * is allowed; list the name whole"
    return ""


def socket_factory(domains: Collection[str]) -> Callable[[AddressInfo], socket.socket]:
    """Makes sockets for allowed addresses, and an OSError for others."""

    def make(info: AddressInfo) -> socket.socket:
        family, type_, protocol, _, where = info
        if why := objection(str(where[0]), domains):
            raise ConnectionRefusedError(f"media is not fetched from there: {why}")
        return socket.socket(family, type_, protocol)

    return make


def guard(domains: Collection[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Give the engine's client such sockets, in its event loop; False where a proxy connects or no engine is loaded."""
    connection = getattr(sys.modules.get(CLIENT), "global_http_connection", None)
    if connection is None or any(environment.get(name) or environment.get(name.upper()) for name in PROXIES):
        return False
    import aiohttp

    connector = aiohttp.TCPConnector(socket_factory=socket_factory(domains))
    connection._async_client = aiohttp.ClientSession(connector=connector)
    return True
