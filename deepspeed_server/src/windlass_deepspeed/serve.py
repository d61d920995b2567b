"""Puts settings, model, DeepSpeed, batcher and HTTP together. The shell around the rest; imports torch when called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from windlass_deepspeed import flags, model_files, templates
from windlass_deepspeed.flags import Settings
from windlass_deepspeed.model_files import ModelFiles

if TYPE_CHECKING:
    from fastapi import FastAPI

    from windlass_deepspeed.engine.load import Loaded

GRACE_S = 10
log = logging.getLogger("windlass_deepspeed")


def run(argv: tuple[str, ...], environment: Mapping[str, str]) -> int:
    """Serve until told to stop; the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = flags.resolve(argv, environment)
    files = check(settings)
    # DeepSpeed looks for an accelerator while it is imported; the image says which.
    if environment.get("WINDLASS_ENGINE") == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if settings.num_gpus > 1 and "RANK" not in environment:
        _become_a_group(argv, settings.num_gpus)
    return _serve(settings, files)


def check(settings: Settings) -> ModelFiles:
    """The model's files; a wrong directory or template's name ends the start before anything is loaded."""
    files = model_files.read(settings.model_path)
    templates.choose(settings.conv_template or files.conv_template, "", own=True)
    return files


def _become_a_group(argv: tuple[str, ...], processes: int) -> None:
    """Replace this process by torch's launcher, which starts one process a GPU and ends all when one ends."""
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
    command = [sys.executable, *launcher, "-m", "windlass_deepspeed", "engine", *argv]
    os.execv(sys.executable, command)  # noqa: S606 - our own program


def _serve(settings: Settings, files: ModelFiles) -> int:
    from windlass_deepspeed.engine import group, load

    loaded = load.load(settings, files)
    log.info("engine: %s", ", ".join(f"{name} {value}" for name, value in loaded.facts.items()))
    if loaded.orders and group.rank() > 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the first process ends the group, after its last step
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        group.follow(loaded.rows, loaded.orders)
        return 0
    return asyncio.run(_listen(settings, files, loaded))


async def _listen(settings: Settings, files: ModelFiles, loaded: Loaded) -> int:
    from windlass_deepspeed.api.app import Served, create_app
    from windlass_deepspeed.api.exchange import Desk
    from windlass_deepspeed.batcher import Batcher
    from windlass_deepspeed.engine import group, load
    from windlass_deepspeed.metrics import Metrics
    from windlass_deepspeed.schedule import Limits

    name = settings.model_id or files.model_id or "model"
    tokenizer = load.tokenizer(settings, files, name)
    metrics = Metrics()
    metrics.describe(loaded.facts)
    leader = group.Leader(loaded.rows, loaded.orders) if loaded.orders else None
    limits = Limits(settings.max_batch_size, settings.batch_wait_timeout_s)
    batcher = Batcher(leader or loaded.rows, tokenizer.decode, load.stop_ids(loaded, tokenizer), limits, metrics)
    desk = Desk(batcher, settings.limit_worker_concurrency)
    batcher.start()
    room = settings.limit_worker_concurrency
    served = Served(name, loaded.context, tokenizer, desk, metrics, settings.api_keys, room)
    try:
        await _until_told(create_app(served), settings)
    finally:
        batcher.close()
        if leader and not batcher.failed:  # after a failure the others may wait for a pass that never comes
            leader.end()
    return 0


async def _until_told(app: FastAPI, settings: Settings) -> None:
    """Answer HTTP until SIGTERM or SIGINT; then finish what is asked, for a while."""
    import uvicorn
    from windlass.api.connections import TimedProtocol

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
    await Server(config).serve()
