"""How many API processes stand behind the port, and the engine's command for one and for several. Pure.

The engine's module starts one API process whatever its flags say; its `serve` starts as many as it is told. Where
nobody gives a number, `windlass run` chooses it by cores and requests at a time. In a pod the operator's plan does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass_sizing import engine_flags
from windlass_sizing.placement.api_processes import (
    OF_ONE_PROCESS,
    OFF,
    STREAMS_AN_ENGINE,
    Cores,
    because,
    choose,
    obstacle,
)
from windlass_sizing.settings.setting import DEFAULT, Setting
from windlass_sizing.settings.values import Value

from windlass.errors import UsageError
from windlass.launch import hook, host_drafts, lookahead
from windlass.launch.inputs import LaunchInputs

ENGINE_CLI = "vllm.entrypoints.cli.main"
NAME, DRAIN = "api-server-count", "shutdown-timeout"
KUBERNETES = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets it in every container."""
GPUS = ("tensor-parallel-size", "pipeline-parallel-size", "sequence-parallel-size", "worker-num")


def count(value: Value | None) -> int:
    """API processes that a setting asks for."""
    return 1 if value is None else int(str(value))


def drain_s(value: Value | None) -> float:
    """Seconds for running answers at the end; the engine's own commands have none unless it is said."""
    return 0.0 if value is None else float(str(value))


def chosen(start: LaunchInputs) -> dict[str, Setting]:
    """The setting with its reason where nobody gives a number, else nothing."""
    if NAME in start.settings:
        return {}
    number, why = _choice(start)
    return {NAME: Setting(NAME, number, DEFAULT, why)}


def _choice(start: LaunchInputs) -> tuple[int, str]:
    why = next((why for rule in ONE_ALONE if (why := rule(start))), "")
    if why:
        return 1, why
    engines, gpus = max(1, start.whole("worker-num", 1)), 1
    for name in GPUS:
        gpus *= max(1, start.whole(name, 1))
    drafting = _drafting(start) * engines
    streams = start.whole("limit-worker-concurrency", STREAMS_AN_ENGINE) * engines
    cores = Cores(start.machine.processors, gpus, engines, drafting)
    return choose(streams, cores), because(streams, cores)


def _drafting(start: LaunchInputs) -> int:
    """Cores of each engine that draft: its drafting thread, and a draft model's."""
    threads = start.whole(host_drafts.THREADS, 0) if start.on_host else 0
    return threads + 1 if lookahead.drafts_by_thread(start) else 0


def _on_cpus(start: LaunchInputs) -> str:
    return "the CPU engine computes on the cores" if start.machine.engine == "cpu" else ""


def _in_group(start: LaunchInputs) -> str:
    return "a group of pods has one" if start.machine.group else ""


def _in_pod(start: LaunchInputs) -> str:
    return "in Kubernetes the service's plan gives the number" if start.environment.get(KUBERNETES) else ""


def _takes_media(start: LaunchInputs) -> str:
    return "each would keep images and other media of its own" if start.model.is_multimodal else ""


def _in_one_alone(start: LaunchInputs) -> str:
    engine = engine_flags.record()
    found = obstacle(start.environment, (engine.flag_of(word) for word in start.words if word.startswith("-")))
    return f"{found} leaves one" if found else ""


def _cores_draft(start: LaunchInputs) -> str:
    takes_all = start.on_host is not None and host_drafts.THREADS not in start.settings
    return "the draft model takes the host's cores" if takes_all else ""


def _not_counted(start: LaunchInputs) -> str:
    return "" if start.machine.processors else "the cores are not counted"


ONE_ALONE: tuple[Callable[[LaunchInputs], str], ...] = (
    _on_cpus,
    _in_group,
    _in_pod,
    _takes_media,
    _in_one_alone,
    _cores_draft,
    _not_counted,
)
"""Why one process serves, whatever cores there are."""


def check(start: LaunchInputs) -> None:
    """UsageError for what several API processes cannot do."""
    setting = start.settings.get(NAME)
    number = count(setting.value if setting else None)
    if number == 0:
        raise UsageError(f"--{NAME} 0 leaves no API; set at least 1")
    if number == 1:
        return
    if start.machine.group:
        raise UsageError(f"--{NAME} {number} is for a server in one pod; leave it out in a group of pods")
    for name, why in OF_ONE_PROCESS.items():
        if start.environment.get(name, "").lower() not in OFF:
            raise UsageError(f"--{NAME} {number} does not go with variable {name}: {why}; leave one of them out")


def command(value: Value | None, words: Sequence[str]) -> tuple[str, ...]:
    """Words for a Python that becomes the engine."""
    if count(value) == 1:
        return ("-m", hook.ENGINE_MODULE, *words)
    return ("-m", ENGINE_CLI, "serve", f"--{NAME}", str(count(value)), *words)
