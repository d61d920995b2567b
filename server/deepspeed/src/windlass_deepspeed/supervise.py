"""`windlass-deepspeed run`: license first, then the engine as a child, told on the facts port.

The parts are those of the vLLM image's server, so that both images behave the same towards operator and license server.
The engine is `windlass-deepspeed engine` with the same words; it is started when the license is granted.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from collections.abc import Mapping
from socket import gethostname

from windlass import log
from windlass.child.output import excerpt
from windlass.errors import EngineError, UsageError, WindlassError
from windlass.license import gpus, keeper
from windlass.license import settings as license_settings
from windlass.license.client import LeaseClient
from windlass.license.model import holder
from windlass.supervisor import termination
from windlass.supervisor.board import EngineFacts, FactsBoard, FactsServer
from windlass.supervisor.supervise import Engine, Supervisor

from windlass_deepspeed import flags, serve
from windlass_deepspeed.flags import PORT_MAX, Settings

FACTS_PORT_VARIABLE, FACTS_PORT = "WINDLASS_FACTS_PORT", 8502
HIDDEN, PROGRAM = "***", "windlass-deepspeed"


def run(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Serve until told to stop; the exit code. Leaves the reason of a failure for Kubernetes."""
    try:
        log.start(environment, PROGRAM)
        return asyncio.run(_supervise(argv, environment))
    except WindlassError as error:
        if not isinstance(error, EngineError):  # the engine's last words are written where its output is
            termination.write(termination.last_words(error), environment)
        raise


def engine_command(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The child's command line."""
    return (sys.executable, "-m", "windlass_deepspeed", "engine", *argv)


def enough(settings: Settings, gpus: int) -> None:
    """A UsageError where this container has GPUs, and fewer than its engines want."""
    wanted = settings.num_gpus * settings.worker_num
    if 0 < gpus < wanted:
        workers = f" and --worker-num {settings.worker_num}" if settings.worker_num > 1 else ""
        raise UsageError(
            f"--num-gpus {settings.num_gpus}{workers} need {wanted} GPUs, and this container has {gpus}; lower them, "
            "or give the container more"
        )


def shown(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words without API keys, for the facts."""
    words: list[str] = []
    for word in argv:
        before = words[-1].replace("_", "-") if words else ""
        name, equals, _ = word.partition("=")
        if before in ("--api-keys", "--api-key"):
            words.append(HIDDEN)
        elif equals and name.replace("_", "-") in ("--api-keys", "--api-key"):
            words.append(f"{name}={HIDDEN}")
        else:
            words.append(word)
    return tuple(words)


async def _supervise(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    facts = EngineFacts("deepspeed", _version(), shown(argv))
    board = FactsBoard(environment.get("WINDLASS_SERVICE", ""), facts)
    with FactsServer(board, _facts_port(environment)):
        settings = flags.resolve(argv, environment)
        serve.check(settings)
        asked = license_settings.read(environment)
        uuids = tuple(gpu.uuid for gpu in gpus.visible(environment))
        enough(settings, len(uuids))
        async with LeaseClient.of(asked) as client:
            report = keeper.spoken(board.set_license, _say)
            kept = keeper.keeper(asked, client, uuids, holder(environment, gethostname()), report)
            return await _supervised(Supervisor(_engine(argv, settings), board, kept), environment)


async def _supervised(supervisor: Supervisor, environment: Mapping[str, str]) -> int:
    try:
        return await supervisor.run()
    except EngineError as error:
        last_lines = excerpt(supervisor.output.lines, termination.EXCERPT_BYTES)
        termination.write(termination.last_words(error, last_lines), environment)
        raise


def _engine(argv: tuple[str, ...], settings: Settings) -> Engine:
    return Engine(engine_command(argv), f"http://127.0.0.1:{settings.port}/health")


def _version() -> str:
    try:
        return importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _facts_port(environment: Mapping[str, str]) -> int:
    text = environment.get(FACTS_PORT_VARIABLE) or str(FACTS_PORT)
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise UsageError(f'variable {FACTS_PORT_VARIABLE} is "{text}", which is no port; write it as {FACTS_PORT}')
    return int(text)


def _say(sentence: str) -> None:
    log.say(sentence, program=PROGRAM)
