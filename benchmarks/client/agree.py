"""Whether load generators see the same server: `windlass bench serve`, vLLM's own command and guidellm, in turns.

    PYTHONPATH=server/src:sizing/src:base/src python benchmarks/client/agree.py OUT.json --tokenizer DIR \
        --guidellm "python3 -m guidellm" [--guidellm-path SITE_PACKAGES]

guidellm comes from an environment of its own; --guidellm-path is put before its module path alone. The delays are long
(500 ms to the first token, 100 ms between two), so that 256 streams are 2,560 tokens a second, which either client
keeps up with on few processors. A server that is late for want of processors is late for both.

--at PORT asks a server that is there instead, with --model NAME. windlass then asks twice a round: how far its two
figures are apart is what the server does of itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from overhead import measured, server

TTFT_MS, ITL_MS, TOKENS = 500.0, 100.0, 64
STREAMS = (64, 256)
WAVES = 3
"""Requests of each stream."""
FIELDS = {"request_throughput": "req/s", "median_ttft_ms": "TTFT p50", "median_e2el_ms": "E2E p50"}


def by_windlass(port: int, streams: int, seed: int, wanted: argparse.Namespace) -> dict[str, float]:
    """Our command's figures."""
    return _by_vllm(port, streams, seed, wanted, is_plain=False)


def by_vllm(port: int, streams: int, seed: int, wanted: argparse.Namespace) -> dict[str, float]:
    """Those of the command that ours calls."""
    return _by_vllm(port, streams, seed, wanted, is_plain=True)


def _by_vllm(port: int, streams: int, seed: int, wanted: argparse.Namespace, *, is_plain: bool) -> dict[str, float]:
    requests = wanted.waves * streams
    found = measured(port, streams, requests, wanted.tokenizer, seed, is_plain=is_plain, model=wanted.model)
    return {field: found[field] for field in FIELDS}


def by_guidellm(port: int, streams: int, seed: int, wanted: argparse.Namespace) -> dict[str, float]:
    """guidellm's, with the same lengths; a rate is counted from the first request to the last answer."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        target = (
            f"target=http://127.0.0.1:{port},request_format=/v1/completions,model={wanted.model},validate_backend=false"
        )
        command = [*wanted.guidellm, "run", "--backend", f"kind=openai_http,{target}", "--disable-console"]
        command += ["--profile", f"kind=concurrent,streams={streams}", "--seed", f"kind=static,value={seed}"]
        command += ["--constraint", f"kind=max_requests,count={wanted.waves * streams}"]
        command += ["--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}"]
        command += ["--tokenizer", f"kind=huggingface_auto,model={wanted.tokenizer}"]
        command += ["--output", f"kind=json,path={out}"]
        own = {"PYTHONPATH": wanted.guidellm_path} if wanted.guidellm_path else {}
        subprocess.run(command, check=True, env={**os.environ, "HF_HUB_OFFLINE": "1", **own})
        (benchmark,) = json.loads(out.read_text())["benchmarks"]
    return figures(benchmark)


def figures(benchmark: dict[str, Any]) -> dict[str, float]:
    """Of a report, by the client's own times."""
    metrics, done = benchmark["metrics"], benchmark["requests"]["successful"]
    begun = min(one["request_start_time"] for one in done)
    ended = max(one["request_end_time"] for one in done)
    return {
        "request_throughput": len(done) / (ended - begun),
        "median_ttft_ms": metrics["time_to_first_token_ms"]["successful"]["median"],
        "median_e2el_ms": 1000 * metrics["request_latency"]["successful"]["median"],
    }


Client = Callable[[int, int, int, argparse.Namespace], dict[str, float]]
SCRIPTED: dict[str, Client] = {"windlass": by_windlass, "guidellm": by_guidellm}
CLIENTS: dict[str, Client] = {
    "windlass": by_windlass, "guidellm": by_guidellm, "vLLM's command": by_vllm, "windlass again": by_windlass
}  # fmt: skip


def main() -> None:
    """Rounds in turns; the file is written after each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--guidellm", type=shlex.split, required=True, help="command that starts guidellm")
    parser.add_argument("--guidellm-path", default="", help="folder of its packages")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit-s", type=float, default=400, help="begin no measurement after this long")
    parser.add_argument("--at", type=int, help="port of a server that is there; without it a scripted one starts")
    parser.add_argument("--model", default="scripted", help="name of the model that it serves")
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--waves", type=int, default=WAVES, help="requests of each stream")
    wanted = parser.parse_args()
    process, port = (None, wanted.at) if wanted.at else server("--ttft-ms", str(TTFT_MS), "--itl-ms", str(ITL_MS))
    rows: list[dict[str, Any]] = []
    try:
        for row in asked(port, CLIENTS if wanted.at else SCRIPTED, wanted):
            rows.append(row)
            print(json.dumps(row), flush=True)
            wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
    finally:
        if process:
            process.send_signal(signal.SIGTERM)
            process.wait()
    print(table(rows))


def asked(port: int, clients: dict[str, Client], wanted: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rounds in turns, the next in the other order, until the time is over; a load of each size before them."""
    began = time.monotonic()
    for streams in wanted.streams if wanted.at else ():
        by_windlass(port, streams, wanted.rounds, wanted)
    for number in range(wanted.rounds):
        for streams in wanted.streams:
            for name in list(clients)[:: 1 if number % 2 == 0 else -1]:
                if time.monotonic() - began < wanted.limit_s:
                    yield {"streams": streams, "client": name, **clients[name](port, streams, number, wanted)}


def table(rows: list[dict[str, Any]]) -> str:
    """Each client's medians over those of windlass's first."""
    lines = []
    for streams, client in dict.fromkeys(
        (row["streams"], row["client"]) for row in rows if row["client"] != "windlass"
    ):
        for field, name in FIELDS.items():
            ours, theirs = (
                [row[field] for row in rows if row["streams"] == streams and row["client"] == one]
                for one in ("windlass", client)
            )
            if ours:
                ratio = statistics.median(theirs) / statistics.median(ours)
                lines.append(f"{streams} streams, {name}: {client} over windlass {ratio:.4f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
