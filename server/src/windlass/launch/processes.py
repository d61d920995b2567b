"""How many API processes stand behind the port, and the engine's command for one and for several. Pure.

The engine's module starts one API process whatever its flags say; its `serve` starts as many as it is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.errors import UsageError
from windlass.launch import hook
from windlass.launch.inputs import LaunchInputs
from windlass.launch.values import Value

ENGINE_CLI = "vllm.entrypoints.cli.main"
NAME, DRAIN = "api-server-count", "shutdown-timeout"
OF_ONE_PROCESS = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "an adapter would be loaded for one of the API processes only",
    "VLLM_ENABLE_RESPONSES_API_STORE": "a stored response would be known to one of the API processes only",
    "VLLM_USE_RUST_FRONTEND": "the engine's front end in Rust is one process and has no guard",
}
"""Switches of the engine for what lives in one API process."""
OFF = ("", "0", "false")


def count(value: Value | None) -> int:
    """API processes that a setting asks for."""
    return 1 if value is None else int(str(value))


def drain_s(value: Value | None) -> float:
    """Seconds for running answers at the end; the engine's own commands have none unless it is said."""
    return 0.0 if value is None else float(str(value))


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
