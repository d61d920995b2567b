"""Puts settings, model, DeepSpeed, batcher and HTTP together. The shell around the rest; imports torch when called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from windlass_base import json_lines

from windlass_deepspeed import flags, model_files, templates, workers
from windlass_deepspeed.decoder import Decoder
from windlass_deepspeed.flags import Settings
from windlass_deepspeed.model_files import ModelFiles
from windlass_deepspeed.workers import Described

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

GRACE_S = 10
log = logging.getLogger("windlass_deepspeed")


def run(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Serve until told to stop; the exit code."""
    level = json_lines.read(environment).level  # the format is the supervisor's, which reads these lines
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = flags.resolve(argv, environment)
    files = check(settings)
    # DeepSpeed looks for an accelerator while it is imported; the image says which.
    if environment.get("WINDLASS_ENGINE") == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if settings.worker_num > 1 and workers.SOCKET not in environment:
        return _with_workers(argv, settings, files)
    if settings.num_gpus > 1 and "RANK" not in environment:
        _become_a_group(argv, settings.num_gpus)
    return _with_model(settings, files)


def check(settings: Settings) -> ModelFiles:
    """The model's files; a wrong directory or template's name ends the start before anything is loaded."""
    files = model_files.read(settings.model_path)
    templates.choose(settings.conv_template or files.conv_template, "", own=True)
    return files


def _become_a_group(argv: tuple[str, ...], processes: int) -> None:
    """Replace this process by torch's launcher, which starts one process a GPU and ends all when one ends."""
    here = ("--standalone", "--local-addr", "127.0.0.1")  # by name, a container without a network cannot be found
    launcher = ("-m", "torch.distributed.run", *here, f"--nproc-per-node={processes}")
    command = [sys.executable, *launcher, "-m", "windlass_deepspeed", "engine", *argv]
    os.execv(sys.executable, command)  # noqa: S606 - our own program


def _with_model(settings: Settings, files: ModelFiles) -> int:
    """Load the model here, and serve it or follow who does."""
    from windlass_deepspeed.engine import group, load

    loaded = load.load(settings, files)
    log.info("engine: %s", ", ".join(f"{name} {value}" for name, value in loaded.facts.items()))
    path = os.environ.get(workers.SOCKET)
    if path or group.rank() > 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the process of the API ends us, after its last step
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if loaded.orders and group.rank() > 0:
        group.follow(loaded.rows, loaded.orders)
        return 0
    leader = group.Leader(loaded.rows, loaded.orders) if loaded.orders else None
    described = Described(loaded.context, load.stop_ids(loaded), loaded.facts)
    failed = False
    if path:
        workers.work(path, leader or loaded.rows, described)
    else:
        failed = asyncio.run(_listen(settings, files, [leader or loaded.rows], described))
    if leader and not failed:  # after a failure the others may wait for a pass that never comes
        leader.end()
    return 0


def _with_workers(argv: tuple[str, ...], settings: Settings, files: ModelFiles) -> int:
    """Serve several engines, each in processes of its own; 1 when one of them ends before we do."""
    with tempfile.TemporaryDirectory(prefix="windlass-deepspeed-") as folder:
        ours = workers.start(argv, settings, os.environ, Path(folder))
        try:
            loaded = [worker.loaded() for worker in ours]
            engines = [engine for engine in loaded if engine]
            if len(engines) < len(ours):
                log.error("%s before its model was loaded", workers.ended(ours))
                return next(code for worker in ours if (code := worker.process.poll()) is not None) or 1
            decoders, (described, *_) = [engine for engine, _ in engines], [told for _, told in engines]
            failed = asyncio.run(_listen(settings, files, decoders, described, lambda: workers.ended(ours)))
        finally:
            for worker in ours:
                worker.end()
    return int(failed)


async def _listen(
    settings: Settings,
    files: ModelFiles,
    decoders: Sequence[Decoder],
    described: Described,
    ended: Callable[[], str] = str,
) -> bool:
    """Answer HTTP until told to stop, or until `ended` says why not; whether an engine failed."""
    from windlass_deepspeed.api.app import Served, create_app
    from windlass_deepspeed.api.exchange import Desk
    from windlass_deepspeed.batcher import Batcher
    from windlass_deepspeed.engine import tokens
    from windlass_deepspeed.metrics import Metrics
    from windlass_deepspeed.pool import Pool
    from windlass_deepspeed.schedule import Limits

    name = settings.model_id or files.model_id or "model"
    tokenizer = tokens.tokenizer(settings, files, name)
    metrics = Metrics()
    metrics.describe(described.facts | {"workers": str(len(decoders))})
    limits = Limits(settings.max_batch_size, settings.batch_wait_timeout_s)
    stops = tokenizer.stop_ids | described.stop_ids
    pool = Pool([Batcher(one, tokenizer.decode, stops, limits, metrics, number) for number, one in enumerate(decoders)])
    room = settings.limit_worker_concurrency * len(decoders)
    served = Served(name, described.context, tokenizer, Desk(pool, room), metrics, settings.api_keys, room)
    pool.start()
    try:
        await _until_stopped(create_app(served), settings, ended)
    finally:
        pool.close()
    return pool.failed or bool(ended())


async def _until_stopped(app: FastAPI, settings: Settings, ended: Callable[[], str] = str) -> None:
    """Answer HTTP until SIGTERM or SIGINT; then finish what is asked, for a while. At once when an engine ended."""
    import uvicorn
    from windlass.front.connections import TimedProtocol

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # The inherited one raises the signal again when all is over, which would skip the rest of our shutdown.
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.handle_exit, number, None)
            yield

    config = uvicorn.Config(
        app,
        settings.host,
        settings.port,
        http=TimedProtocol,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = Server(config)
    watch = asyncio.create_task(_watch(server, ended))
    try:
        await server.serve()
    finally:
        watch.cancel()


async def _watch(server: uvicorn.Server, ended: Callable[[], str]) -> None:
    """Stop the server when an engine's process has ended: half a server must not look whole."""
    why = ""
    while not why:
        await asyncio.sleep(workers.LOOK_S)
        why = ended()
    if not server.should_exit:
        log.error("%s; the server stops", why)
        server.should_exit = server.force_exit = True
