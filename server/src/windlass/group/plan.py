"""This machine's place in a group, out of the environment that the operator gives. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

from windlass.errors import UsageError
from windlass.group import contract
from windlass.group.contract import NATIVE, RAY, Variable

CPU = "cpu"
PORT_MAX = 65535
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
ORDINAL = re.compile(r"-(\d{1,6})$")


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One member's view of its group; member 0 is the head."""

    head: str
    size: int
    index: int
    engine: str  # ray | native
    timeout_s: float | None = float(contract.TIMEOUT.default)
    """None waits for ever."""
    lost_after_s: float = float(contract.LOST_AFTER.default)
    port: int = int(contract.PORT.default)
    engine_port: int = int(contract.ENGINE_PORT.default)
    ray_port: int = int(contract.RAY_PORT.default)
    host_ip: str = ""
    revision: str = ""
    """Members of another one are neither refused nor let in: they are about to be replaced, or this one is."""

    @property
    def is_head(self) -> bool:
        """Whether this member serves the API."""
        return self.index == 0

    @property
    def followers(self) -> range:
        """The other members, as the head sees them."""
        return range(1, self.size)


def group_plan(environment: Mapping[str, str], hostname: str, engine: str) -> GroupPlan | None:
    """The group that the environment tells of, None when this machine serves alone.

    `engine` is the engine's kind, cuda or cpu. UsageError for a value that cannot be.
    """
    head = environment.get(contract.HEAD.name, "")
    size = _whole(environment, contract.SIZE, least=1)
    if not head and size == 1:
        return None
    if not head or not environment.get(contract.SIZE.name):
        there, lacks = (contract.HEAD, contract.SIZE) if head else (contract.SIZE, contract.HEAD)
        raise UsageError(f"variable {there.name} is set and {lacks.name} is not; set both, or neither to serve alone")
    if size == 1:
        return None
    return GroupPlan(
        head=_host(head),
        size=size,
        index=_index(environment, hostname, size),
        engine=_engine(environment, engine),
        timeout_s=_whole(environment, contract.TIMEOUT) or None,
        lost_after_s=_whole(environment, contract.LOST_AFTER, least=1),
        port=_port(environment, contract.PORT),
        engine_port=_port(environment, contract.ENGINE_PORT),
        ray_port=_port(environment, contract.RAY_PORT),
        host_ip=environment.get(contract.HOST_IP, ""),
        revision=environment.get(contract.REVISION.name, ""),
    )


def ordinal(hostname: str) -> int | None:
    """The number that ends the name of a StatefulSet's pod."""
    found = ORDINAL.search(hostname.partition(".")[0])
    return int(found[1]) if found else None


def _host(text: str) -> str:
    if HOST.fullmatch(text) or _is_address(text):
        return text
    ports = f"; its port is {contract.PORT.name}" if ":" in text else ""
    raise UsageError(f'variable {contract.HEAD.name} is "{text}", which is no host name or address{ports}')


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _index(environment: Mapping[str, str], hostname: str, size: int) -> int:
    name = contract.INDEX.name
    if environment.get(name):
        index, source = _whole(environment, contract.INDEX), f"variable {name}"
    elif (number := ordinal(hostname)) is not None:
        index, source = number, f"host name {hostname}"
    else:
        raise UsageError(
            f"variable {name} is not set and host name {hostname} ends with no number; set it to 0 … {size - 1}"
        )
    if index >= size:
        raise UsageError(
            f"{source} makes this member {index}, and the group has {size} members; number them 0 … {size - 1}, "
            f"or raise {contract.SIZE.name}"
        )
    return index


def _engine(environment: Mapping[str, str], engine: str) -> str:
    name = contract.ENGINE.name
    chosen = environment.get(name) or (NATIVE if engine == CPU else RAY)
    if chosen not in contract.ENGINES:
        raise UsageError(f'variable {name} is "{chosen}"; choose one of {", ".join(contract.ENGINES)}')
    if chosen == RAY and engine == CPU:
        raise UsageError(
            f"variable {name} is ray, and the engine for CPUs refuses Ray; set {NATIVE}, or leave it unset"
        )
    return chosen


def _port(environment: Mapping[str, str], variable: Variable) -> int:
    number = _whole(environment, variable, least=1)
    if number > PORT_MAX:
        raise UsageError(f"variable {variable.name} is {number}, which is no port; set 1 … {PORT_MAX}")
    return number


def _whole(environment: Mapping[str, str], variable: Variable, least: int = 0) -> int:
    text = environment.get(variable.name) or variable.default
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
        shown = variable.default or "0"
        raise UsageError(f'variable {variable.name} is "{text}"; write a whole number, at least {least}, as {shown}')
    return int(text)
