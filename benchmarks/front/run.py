"""Processor time of the API's process for each piece of a stream: vLLM alone, and with our guard before it, in turns.

    PYTHONPATH=server/src:base/src:sizing/src python benchmarks/front/run.py [--out FILE] [--before FOLDER]

All are vLLM's API server before an engine that computes nothing (`scripted_engine`); a piece holds a token. Each turn
asks all servers the same, in one order and then in the other. The time is that of all threads of the process, by the
kernel, with each request's own share in it: answers have 128 tokens. --before names another checkout's server/src, for
a third server with that guard. --profile N samples each server while it answers N streams (py-spy).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import keeper
import streams as client

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STREAMS = (10, 64, 128, 256)
TOKENS = 128
STEP_MS = 40.0
"""So slow that one core can do 256 streams, and every token comes as a piece of its own."""
KEY = "front-benchmark-key"
START_S = 300.0


def variables(source: Path, folder: Path) -> dict[str, str]:
    """What `windlass run` gives the guard: a key with limits that are never reached, and records of usage."""
    from windlass.api.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings

    limits = {"requestsPerMinute": 10**8, "tokensPerMinute": 10**11, "concurrency": 10**5}
    document = {"keys": [{"name": "bench", "key": KEY, **limits}, {"name": "other", "key": "another-key-of-it"}]}
    file = folder / "keys.json"
    file.write_text(json.dumps(document))
    settings = ApiSettings(served_names=("demo",), concurrency=1024, queue=1024, keys_file=str(file))
    paths = f"{source}:{os.environ.get('PYTHONPATH', '')}"
    return {SETTINGS_VARIABLE: settings.to_json(), KEYS_VARIABLE: "", "PYTHONPATH": paths,
            "WINDLASS_USAGE_DIR": str(folder / "usage"), "VLLM_API_KEY": ""}  # fmt: skip


class Server:
    """One API server."""

    def __init__(self, name: str, source: Path | None, folder: Path, model: Path) -> None:
        """Start it; `source` holds the guard, None for vLLM alone."""
        folder.mkdir(parents=True)
        self.name, self.log = name, folder / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        words = ["--host", "127.0.0.1", "--port", str(self.port), "--served-model-name", "demo", "--dtype", "float32"]
        words += ["--max-model-len", "1024", "--disable-uvicorn-access-log"]
        own: dict[str, str] = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        own |= {"VLLM_PLUGINS": "", "TORCHDYNAMO_DISABLE": "1"}
        if source:
            words += ["--middleware", "windlass.api.guard.Guard", "--enable-prompt-tokens-details"]
            own |= variables(source, folder)
        command = [sys.executable, str(HERE / "scripted_engine.py"), "--step-ms", str(STEP_MS), str(model), *words]
        with self.log.open("wb") as log:
            self.process = keeper.start(command, patience_s=5, stdout=log, stderr=log, env=os.environ | own)

    def wait(self) -> None:
        """Until it listens; RuntimeError with its last words when it ended."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.2)
            else:
                return
        raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()[-3000:]}")

    @property
    def pid(self) -> int:
        """The API's process: the keeper's child."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def processor_s(self) -> float:
        """Seconds of all its threads."""
        rows = [path.read_text().split() for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat")]
        return sum(int(row[0]) for row in rows) / 1e9


def ask(server: Server, streams: int, each: int) -> dict[str, Any]:
    """Processor microseconds a piece; an answer without all its tokens is an error."""
    body = {"model": "demo", "stream": True, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    body |= {"messages": [{"role": "user", "content": "What does os.path.join do?"}]}
    asked = client.request("/v1/chat/completions", body, KEY)
    before = server.processor_s()
    counted = asyncio.run(client.load(server.port, streams, each, asked))
    spent = server.processor_s() - before
    if counted.requests != streams * each:
        raise RuntimeError(f"{server.name}: {counted} of {streams * each} requests; see {server.log}")
    return {"server": server.name, "streams": streams, "us": 1e6 * spent / counted.events, "pieces": counted.events}


def turn_of(servers: list[Server], streams: int, each: int, number: int) -> list[dict[str, Any]]:
    """All servers in one order, then in the other."""
    order = servers if number % 2 == 0 else servers[::-1]
    return [ask(server, streams, each) | {"turn": number} for server in (*order, *order[::-1])]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Medians, and the median of what a server needs more than vLLM alone in the same half of a turn."""
    lines = ["| streams | server | µs a piece | more than vLLM alone | |", "|" + " --- |" * 5]
    for streams in dict.fromkeys(row["streams"] for row in rows):
        of: dict[str, list[float]] = {}
        for row in rows:
            if row["streams"] == streams:
                of.setdefault(row["server"], []).append(row["us"])
        for name, found in of.items():
            more = statistics.median(one - plain for one, plain in zip(found, of["stock"], strict=True))
            share = 100 * more / statistics.median(of["stock"])
            words = f"{more:+.1f} µs | {share:+.1f} %" if name != "stock" else "– |"
            lines.append(f"| {streams} | {name} | {statistics.median(found):.1f} | {words} |")
    return lines


def profile(servers: list[Server], streams: int, out: Path) -> None:
    """A flame graph of each server beside the result file."""
    spy = shutil.which("py-spy")
    if not spy:
        raise SystemExit("--profile needs py-spy on the path")
    for server in servers:
        picture = out.with_name(f"{out.stem}-{server.name}.svg")
        words = [spy, "record", "--pid", str(server.pid), "--rate", "500", "--duration", "15", "--output", str(picture)]
        recording = keeper.start(words, stdout=subprocess.DEVNULL)
        while recording.poll() is None:
            ask(server, streams, 1)


def main() -> None:
    """Every number of streams, turn after turn; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("front.json"), help="of every half turn")
    parser.add_argument("--before", type=Path, help="another checkout's server/src")
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--requests", type=int, default=30, help="of one server in half a turn, at least")
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--profile", type=int, metavar="STREAMS")
    wanted = parser.parse_args()
    sources: dict[str, Path | None] = {"stock": None, "ours": ROOT / "server/src"}
    if wanted.before:
        sources["before"] = wanted.before.resolve()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        servers = [Server(name, source, Path(work, name), wanted.model) for name, source in sources.items()]
        try:
            for server in servers:
                server.wait()
                ask(server, 10, 1)
            if wanted.profile:
                profile(servers, wanted.profile, wanted.out)
                return
            for number, streams in itertools.product(range(wanted.turns), wanted.streams):
                rows += turn_of(servers, streams, -(-wanted.requests // streams), number)
                wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
        finally:
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.process.wait()
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
