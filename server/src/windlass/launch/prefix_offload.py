"""Whether evicted prefixes are kept in host memory, in how much of it, and by which words of the engine. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from windlass_sizing.settings import engine_words
from windlass_sizing.settings.setting import DEFAULT

from windlass.engine.prefix_offload import counts
from windlass.engine.prefix_offload import settings as keys
from windlass.errors import UsageError
from windlass.launch.inputs import LaunchInputs

SWITCH, SHARE, SIZE = "enable-prefix-cache-offload", "cpu-prefill-memory-utilization", "prefix-offload-mib"
THRESHOLD, HIT_COUNT = "apc-offload-min-access-threshold", "apc-offload-enable-hit-cnt"
NOT_LAZY, CARD_LIMIT = "apc-offload-not-lazy", "apc-offload-gpu-evictor-limit"
OURS = (SHARE, SIZE, THRESHOLD, HIT_COUNT, NOT_LAZY, CARD_LIMIT)
TRANSFER = counts.TRANSFER
ENGINES_OWN = frozenset({TRANSFER, "--kv-offloading-size", "--kv-offloading-backend"})
MIB, GIB = 2**20, 2**30
SHARE_DEFAULT = 0.3
SHARED_RESERVE_BYTES = GIB // 2
"""Left of /dev/shm to what the engine's processes share otherwise; the plan of a service leaves 1 GiB."""


@dataclass(frozen=True, slots=True)
class PrefixOffload:
    """Words for the engine's command line, and what to tell."""

    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def decide(start: LaunchInputs) -> PrefixOffload:
    """The words, or why there are none; UsageError for what cannot be."""
    if not start.value(SWITCH):
        given = (name for name in OURS if (one := start.settings.get(name)) and one.source != DEFAULT)
        return PrefixOffload(notes=tuple(f"--{name} has no effect: it counts with --{SWITCH}" for name in given))
    for rule in CONTRADICTIONS:
        if sentence := rule(start):
            raise UsageError(sentence)
    if start.machine.engine == "cpu":
        return PrefixOffload(notes=(f"--{SWITCH} is off for this start: the CPU engine's cache is in host memory",))
    size = each_bytes(start)
    return PrefixOffload(
        (TRANSFER, json.dumps(_connector(start, size))),
        (f"evicted prefixes are kept in {size / GIB:.1f} GiB of host memory for each engine",),
    )


def each_bytes(start: LaunchInputs) -> int:
    """Host memory of one engine, over its cards; all engines of the container share what was asked for."""
    asked_mib = start.whole(SIZE, 0)
    share = float(str(start.value(SHARE) or SHARE_DEFAULT))
    return (asked_mib * MIB or int(share * start.machine.memory_bytes)) // max(1, start.whole("worker-num", 1))


def _connector(start: LaunchInputs, size: int) -> dict[str, object]:
    extra: dict[str, object] = {
        "spec_name": keys.SPEC,
        "spec_module_path": keys.SPEC_MODULE,
        "cpu_bytes_to_use": size,
        "eviction_policy": keys.EVICTION,
        "store_threshold": start.whole(THRESHOLD, 1),
        "offload_prompt_only": True,
        keys.IN_STEP: True,
        keys.COUNTS: counts.folder(start.environment, start.whole("port", 8000)),
    }
    if start.value(HIT_COUNT):
        extra[keys.HIT_COUNT] = True
    if start.value(NOT_LAZY):
        extra[keys.NOT_LAZY] = True
    if (limit := start.whole(CARD_LIMIT, keys.NO_LIMIT)) != keys.NO_LIMIT:
        extra[keys.CARD_LIMIT] = limit
    return {
        "kv_connector": keys.CONNECTOR,
        "kv_connector_module_path": keys.CONNECTOR_MODULE,
        "kv_role": "kv_both",
        "kv_connector_extra_config": extra,
    }


def _no_prefix_cache(start: LaunchInputs) -> str | None:
    if start.value("enable-prefix-caching") is not False:
        return None
    return f"--{SWITCH} keeps what the prefix cache evicts, and --enable-prefix-caching is false; leave one of them out"


def _engines_own(start: LaunchInputs) -> str | None:
    other = next((flag for flag in engine_words.flags(start.words) if flag in ENGINES_OWN), None)
    return f"--{SWITCH} and {other} both choose where blocks are kept; leave one of them out" if other else None


def _too_large(start: LaunchInputs) -> str | None:
    machine, size = start.machine, each_bytes(start) * max(1, start.whole("worker-num", 1))
    room = max(0, machine.shared_bytes - SHARED_RESERVE_BYTES)
    if machine.engine == "cpu" or not machine.shared_bytes or size <= room:
        return None
    return (
        f"--{SWITCH} wants {size / GIB:.1f} GiB in /dev/shm, which has {machine.shared_bytes / GIB:.1f} GiB free; "
        f"set --{SIZE} to {room // MIB} or less, or give the container more shared memory"
    )


def _nothing(start: LaunchInputs) -> str | None:
    if start.machine.engine == "cpu" or each_bytes(start):
        return None
    return f"--{SWITCH} does not know how much memory this machine has; set --{SIZE}"


CONTRADICTIONS: tuple[Callable[[LaunchInputs], str | None], ...] = (
    _no_prefix_cache,
    _engines_own,
    _too_large,
    _nothing,
)
