"""How many API processes a pod's server has: by the user's words, else by the processors that the pod asks for.

The server sees all processors of its node, so in a pod it takes the plan's number (ADR 102). Pure.
"""

from __future__ import annotations

import math

from windlass_sizing.placement.api_processes import Cores, because, choose, obstacle
from windlass_sizing.settings.flags import ROW

from windlass_api.plan.quantity import cores
from windlass_api.plan.start import Start

COUNT = "api-server-count"
(VARIABLE,) = ROW[COUNT].variables
CONCURRENCY = "limit-worker-concurrency"
COUNTED_MAX = 1024  # a larger number is a mistake, and keeps no quantity that Kubernetes reads
UNSEEN = "1"  # of a variable from a Secret or the like, which may be on


def is_given(start: Start) -> bool:
    """Whether the user's words give a number, be it by a variable whose value the plan does not see."""
    return start.settings.names(f"--{COUNT}") or any(one.name == VARIABLE for one in start.spec.env)


def given(start: Start) -> int:
    """The API processes of the user's own number, as far as it can be read; 1 without one."""
    found = start.settings.whole(COUNT) if start.is_vllm else 0
    return found if 0 < found <= COUNTED_MAX else 1


def chosen(start: Start, counted: Cores) -> int:
    """The number for a pod of one node with GPUs, where nothing of the spec needs another."""
    variables = {one.name: one.value if one.value_from is None else UNSEEN for one in start.spec.env}
    if not start.is_vllm or not start.is_ours or is_given(start):
        return 1
    if obstacle(variables, start.settings.engine_words):
        return 1
    return choose(_streams(start, counted.engines), counted)


def cores_of(cpu: str, gpus: int, engines: int, drafting: int) -> Cores:
    """The processors that a pod asks for, and what needs one each; `drafting` are of all engines together."""
    return Cores(math.floor(min(COUNTED_MAX, cores(cpu))), gpus, engines, drafting)


def sentence(start: Start, number: int, counted: Cores) -> str:
    """What the plan says of a number that it chose."""
    return f"{number} API processes: {because(_streams(start, counted.engines), counted)}"


def _streams(start: Start, engines: int) -> int:
    """Requests at a time of all engines, as the server reads the limit."""
    return start.settings.whole(CONCURRENCY) * engines
