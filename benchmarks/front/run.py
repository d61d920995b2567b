"""Processor time of the API's process for each piece of a stream: vLLM alone, and with our guard before it, in turns.

    PYTHONPATH=server/src:lib/base/src:lib/sizing/src python benchmarks/front/run.py [--out FILE] [--before FOLDER]

All are vLLM's API server before an engine that computes nothing (`scripted_engine`); a piece holds a token, and an
answer's first one the role alone. Each turn asks all servers the same, in one order and then in the other. The time is
that of all threads of the process, by the kernel, with each request's own share in it. Answers have 128 tokens. With
two lengths (--tokens 64 512) what a server needs more is split into a piece's share and a request's. --before names
another checkout's server/src, for a third server with that guard. --profile N samples each server while it answers N
streams (py-spy).
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import keeper
import streams as client

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STREAMS = (10, 64, 128, 256)
TOKENS, TOKENS_MAX = 128, 900
STEP_MS = 40.0
"""So slow that one core can do 256 streams, and every token comes as a piece of its own."""
KEY = "front-benchmark-key"
START_S = 300.0


def variables(source: Path, folder: Path) -> dict[str, str]:
    """What `windlass run` gives the guard: a key with limits that are never reached, and records of usage."""
    from windlass.front.settings import KEYS_VARIABLE, SETTINGS_VARIABLE, ApiSettings

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

    def __init__(self, name: str, source: Path | None, folder: Path, wanted: argparse.Namespace) -> None:
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
        command = [sys.executable, str(HERE / "scripted_engine.py"), "--step-ms", str(wanted.step_ms)]
        command += [str(wanted.model), *words]
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


def ask(server: Server, streams: int, each: int, tokens: int = TOKENS) -> dict[str, Any]:
    """Processor microseconds a piece; an answer without all its tokens is an error."""
    body = {"model": "demo", "stream": True, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    body |= {"messages": [{"role": "user", "content": "What does os.path.join do?"}]}
    asked = client.request("/v1/chat/completions", body, KEY)
    before = server.processor_s()
    counted = asyncio.run(client.load(server.port, streams, each, asked))
    spent = server.processor_s() - before
    if counted.requests != streams * each or counted.events < streams * each * tokens:
        raise RuntimeError(
            f"{server.name}: {counted} of {streams * each} requests with {tokens} pieces each; see {server.log}"
        )
    found = {"server": server.name, "streams": streams, "tokens": tokens}
    return found | {"us": 1e6 * spent / counted.events, "pieces": counted.events}


def turn_of(servers: list[Server], streams: int, tokens: int, requests: int, number: int) -> list[dict[str, Any]]:
    """All servers in one order, then in the other; of each about as many pieces as `requests` of 128 tokens have."""
    order = servers if number % 2 == 0 else servers[::-1]
    each = -(-requests * TOKENS // (streams * tokens))
    return [ask(server, streams, each, tokens) | {"turn": number} for server in (*order, *order[::-1])]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Medians, and the median of what a server needs more than vLLM alone in the same half of a turn."""
    lines = ["| streams | tokens | server | µs a piece | more than vLLM alone | |", "|" + " --- |" * 6]
    for cell in dict.fromkeys((row["streams"], row["tokens"]) for row in rows):
        of = times_of(rows, *cell)
        for name, found in of.items():
            more = statistics.median(more_than(of["stock"], found))
            share = 100 * more / statistics.median(of["stock"])
            words = f"{more:+.1f} µs | {share:+.1f} %" if name != "stock" else "– |"
            lines.append(f"| {cell[0]} | {cell[1]} | {name} | {statistics.median(found):.1f} | {words} |")
    return lines


def times_of(rows: list[dict[str, Any]], streams: int, tokens: int) -> dict[str, list[float]]:
    """Microseconds a piece by server, in the order of the half turns."""
    of: dict[str, list[float]] = {}
    for row in rows:
        if (row["streams"], row["tokens"]) == (streams, tokens):
            of.setdefault(row["server"], []).append(row["us"])
    return of


def more_than(stock_us: Sequence[float], found_us: Sequence[float]) -> list[float]:
    """Microseconds more, half turn by half turn."""
    return [one - stock for one, stock in zip(found_us, stock_us, strict=True)]


def split(rows: list[dict[str, Any]], short: int, long: int) -> list[str]:
    """What a server needs more than vLLM alone, as a piece's share and a request's: medians, least and most.

    An answer's first piece holds the role and no token, so an answer of n tokens has n + 1 pieces.
    """
    lines = ["", "| streams | server | µs more a piece | share of vLLM's own piece | µs more a request |"]
    lines.append("|" + " --- |" * 5)
    for streams in dict.fromkeys(row["streams"] for row in rows):
        short_us, long_us = times_of(rows, streams, short), times_of(rows, streams, long)
        shares = {
            name: [shares_of(*both, short + 1, long + 1) for both in zip(short_us[name], long_us[name], strict=True)]
            for name in short_us
        }
        stock = shares.pop("stock")
        own_us = statistics.median(piece for piece, _ in stock)
        for name, found in shares.items():
            pieces, requests = (more_than([one[at] for one in stock], [one[at] for one in found]) for at in (0, 1))
            share = 100 * statistics.median(pieces) / own_us
            lines.append(f"| {streams} | {name} | {spread(pieces, 2)} | {share:+.1f} % | {spread(requests, 0)} |")
    return lines


def shares_of(short_us: float, long_us: float, short: int, long: int) -> tuple[float, float]:
    """Microseconds of a piece and of a request, from those a piece takes in answers of two numbers of pieces.

    >>> shares_of(10 + 2000 / 65, 10 + 2000 / 513, 65, 513)
    (10.0, 2000.0)
    """
    piece = (long * long_us - short * short_us) / (long - short)
    return round(piece, 6), round(short * (short_us - piece), 6)


def spread(values: Sequence[float], digits: int) -> str:
    """The median, and the least and the most."""
    return f"{statistics.median(values):+.{digits}f} ({min(values):+.{digits}f} to {max(values):+.{digits}f})"


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
    parser.add_argument("--tokens", type=int, nargs="+", default=[TOKENS], help="of an answer; two lengths are split")
    parser.add_argument("--step-ms", type=float, default=STEP_MS, help="of the engine; less asks more of the process")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument(
        "--requests", type=int, default=30, help="in half a turn, about as many pieces as so many of 128 tokens have"
    )
    parser.add_argument("--model", type=Path, default=ROOT / "models/demo")
    parser.add_argument("--profile", type=int, metavar="STREAMS")
    wanted = parser.parse_args()
    short, *longer = sorted({*wanted.tokens})
    if len(longer) > 1 or short < 1 or max(wanted.tokens) > TOKENS_MAX:
        parser.error(f"--tokens takes one or two lengths of 1 to {TOKENS_MAX}")
    sources: dict[str, Path | None] = {"stock": None, "ours": ROOT / "server/src"}
    if wanted.before:
        sources["before"] = wanted.before.resolve()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as work:
        servers = [Server(name, source, Path(work, name), wanted) for name, source in sources.items()]
        try:
            for server in servers:
                server.wait()
                ask(server, 10, 1)
            if wanted.profile:
                profile(servers, wanted.profile, wanted.out)
                return
            for number, streams in itertools.product(range(wanted.turns), wanted.streams):
                for tokens in (short, *longer) if number % 2 == 0 else (*longer, short):
                    rows += turn_of(servers, streams, tokens, wanted.requests, number)
                wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
        finally:
            for server in servers:
                server.process.terminate()
            for server in servers:
                server.process.wait()
    print("\n".join(table(rows)))
    for long in longer:
        print("\n".join(split(rows, short, long)))


if __name__ == "__main__":
    main()
