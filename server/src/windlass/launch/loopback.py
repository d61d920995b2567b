"""Keeps the engine's own connections inside of the machine where nothing of it runs on another one. Pure.

vLLM's processes meet over files and sockets of the file system when all are on one machine, but Gloo and NCCL listen
on the address of the host's name, on ports that the kernel chooses, and ask nobody who connects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass_sizing import engine_flags

from windlass.group.arguments import BY_HAND
from windlass.launch.model import Machine

INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Gloo's and NCCL's own variables: the interface on which they listen."""
LOOPBACK = "lo"
BEYOND = frozenset(
    (
        *BY_HAND,
        *engine_flags.PLACED,
        *("--data-parallel-backend", "-dpb"),
        *("--distributed-executor-backend", "--enable-elastic-ep"),
        *("--kv-transfer-config", "--ec-transfer-config", "--weight-transfer-config"),
        "--config",  # a file may hold any of them
    )
)
"""vLLM's flags by which its processes, or others that they talk to, may be on other machines."""


def variables(machine: Machine, words: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The interface on which the engine's processes listen for each other; what the user says stands."""
    if machine.group is not None or any(_name(word) in BEYOND for word in words):
        return {}
    return {name: LOOPBACK for name in INTERFACES if name not in environment}


def _name(word: str) -> str:
    """`--kv_transfer_config.kv_role=both` is a word of --kv-transfer-config."""
    return word.partition("=")[0].partition(".")[0].replace("_", "-")
