"""How many API processes serve behind one port where the user gives no number, and what each of them takes. Pure.

`windlass run` chooses outside of Kubernetes. In a pod the plan chooses, because the pod sees all cores of its node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

STREAMS_EACH = 32
"""Requests at a time for each process. So the default of 128 has four, as measured (docs/reference/load.md)."""
MOST = 4
"""More were not measured."""
STREAMS_AN_ENGINE = 128
"""The default of `--limit-worker-concurrency`."""
FURTHER_GIB = 1.2
"""Host memory of each process but the first; guess. On the CPU image six of them took 13 GiB with their two engines."""

OF_ONE_PROCESS = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "an adapter would be loaded for one of the API processes only",
    "VLLM_ENABLE_RESPONSES_API_STORE": "a stored response would be known to one of the API processes only",
    "VLLM_USE_RUST_FRONTEND": "the engine's front end in Rust is one process and has no guard",
}
"""Switches of the engine for what lives in one API process."""
OFF = ("", "0", "false")
FLAGS_OF_ONE_PROCESS = frozenset(
    {
        *("--headless", "--grpc", "--enable-elastic-ep", "--enable-fault-tolerance", "--fault-tolerance-config"),
        *("--data-parallel-rank", "-dpn", "--data-parallel-start-rank", "-dpr"),
        *("--data-parallel-external-lb", "-dpe", "--data-parallel-hybrid-lb", "-dph"),
        *("--data-parallel-multi-port-external-lb", "-dpm"),
        "--config",  # a file may hold any of them
    }
)
"""Flags of vLLM 0.32 beside which it refuses several API processes, caps them, or balances requests another way."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Cores that a server may use, and what needs one each."""

    all: int
    gpus: int
    engines: int = 1
    drafting: int = 0
    """Of all engines together, where a draft model runs on the host."""

    @property
    def free(self) -> int:
        """What is left for API processes."""
        return max(0, self.all - self.gpus - self.engines - self.drafting)


def choose(streams: int, cores: Cores) -> int:
    """API processes for so many requests at a time; each has a core of its own, but the first."""
    return max(1, min(MOST, math.ceil(streams / STREAMS_EACH), cores.free))


def because(streams: int, cores: Cores) -> str:
    """The choice's reason, for people."""
    return f"{streams} requests at a time, and {cores.free} of {cores.all} cores beside GPUs, engines and drafts"


def obstacle(variables: Mapping[str, str], words: Iterable[str]) -> str:
    """The switch or flag of the engine that leaves one API process; empty where none does."""
    switches = (name for name in OF_ONE_PROCESS if variables.get(name, "").lower() not in OFF)
    flags = (word.partition("=")[0].partition(".")[0].replace("_", "-") for word in words if word.startswith("-"))
    return next((name for name in (*switches, *flags) if name in OF_ONE_PROCESS or name in FLAGS_OF_ONE_PROCESS), "")
