"""The DeepSpeed server's process on an engine of arithmetic: its real application, batcher and uvicorn.

`python tests/attack/guard/deepspeed_like.py` prints its address and serves until its standard input ends; the keys are
those of OPENAI_API_KEYS.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "server/deepspeed/tests/answering"))

from echo import EOS, Echo, Letters
from windlass_deepspeed import serve
from windlass_deepspeed.api.app import Served, create_app
from windlass_deepspeed.api.exchange import Desk
from windlass_deepspeed.batcher import Batcher
from windlass_deepspeed.flags import resolve
from windlass_deepspeed.metrics import Metrics
from windlass_deepspeed.schedule import Limits
from windlass_testbed.ports import free_port

CONTEXT = 2_000_000
"""Long enough that a prompt of the largest body is refused by nothing but the front."""


def main() -> None:
    """Serve until standard input ends."""
    port = free_port()
    settings = resolve(("--host", "127.0.0.1", "--port", str(port)), os.environ)
    metrics = Metrics()
    batcher = Batcher(Echo(), Letters().decode, frozenset({EOS}), Limits(4, 0.01), metrics)
    batcher.start()
    desk = Desk(batcher, settings.limit_worker_concurrency)
    app = create_app(Served("echo", CONTEXT, Letters(), desk, metrics, settings.api_keys))
    threading.Thread(target=_stop, daemon=True).start()
    threading.Thread(target=_tell, args=(port,), daemon=True).start()
    asyncio.run(serve._until_stopped(app, settings))
    batcher.close()


def _tell(port: int) -> None:
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                print(f"http://127.0.0.1:{port}", flush=True)
                return


def _stop() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
