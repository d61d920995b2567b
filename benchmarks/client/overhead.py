"""What the client itself costs: vLLM's load generator by `windlass bench serve` against a server without a model.

    export PYTHONPATH=server/src:lib/sizing/src:lib/base/src
    python benchmarks/client/overhead.py OUT.json --tokenizer models/demo

At 1, 64 and 256 streams a server answers at once (`scripted.py`): tokens a second are then the client's and server's
most, and TTFT is their least. At the same streams a server of scripted delays says by how much the client's figures are
more than the truth, which is known. `--plain` runs vLLM's command without windlass at the same load, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
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

HERE = Path(__file__).parent
STREAMS = (1, 64, 256)
TTFT_MS, ITL_MS, TOKENS = 50.0, 10.0, 64
FIELDS = ("request_throughput", "output_throughput", "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms",
          "median_tpot_ms", "median_e2el_ms")  # fmt: skip


def server(*words: str) -> tuple[subprocess.Popen[bytes], int]:
    """A scripted server on a free port, once it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = keeper.start([sys.executable, str(HERE / "scripted.py"), str(port), *words])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
            continue
        return process, port


def measured(  # noqa: PLR0913 - the words of one load
    port: int, streams: int, requests: int, tokenizer: str, seed: int, *, is_plain: bool, model: str = "scripted"
) -> dict[str, Any]:
    """vLLM's result of one load: through windlass, or by the words that windlass wrote down, started alone."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        words = ["--server", f"http://127.0.0.1:{port}", "--tokenizer", tokenizer, "--api", "completions"]
        words += ["--num-prompts", str(requests), "--concurrency", str(streams), "--input-len", "32"]
        words += ["--output-len", str(TOKENS), "--seed", str(seed), "--output-dir", str(out)]
        words += ["--ignore-eos", "--model", model]
        command = [sys.executable, "-m", "windlass.cli.main", "bench", "serve", *words]
        if is_plain:
            plain = out / "result.json"
            command = [sys.executable, "-P", "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"]
            command += ["--base-url", f"http://127.0.0.1:{port}", "--endpoint", "/v1/completions"]
            command += ["--model", model, "--tokenizer", tokenizer, "--dataset-name", "random", "--ignore-eos"]
            command += ["--random-input-len", "32", "--random-output-len", str(TOKENS), "--seed", str(seed)]
            command += ["--num-prompts", str(requests), "--max-concurrency", str(streams), "--save-result"]
            command += ["--result-dir", str(out), "--result-filename", plain.name, "--percentile-metrics"]
            command += ["ttft,tpot,itl,e2el", "--metric-percentiles", "90,99"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
        (path,) = out.rglob("result.json")
        result = json.loads(path.read_text())
        return {field: result[field] for field in FIELDS} | {"completed": result["completed"]}


def environment() -> dict[str, str]:
    """No hub; a scripted server wants no key."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def middle(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Median of each figure."""
    return {field: round(statistics.median(row[field] for row in rows), 3) for field in rows[0]}


def main() -> None:
    """All rows; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", action="store_true")
    wanted = parser.parse_args()
    ways = (False, True) if wanted.plain else (False,)
    rows: list[dict[str, Any]] = []
    for name, delays in (("at once", ()), ("scripted", ("--ttft-ms", str(TTFT_MS), "--itl-ms", str(ITL_MS)))):
        process, port = server(*delays)
        try:
            for streams in wanted.streams:
                requests = max(40, 8 * streams)
                found: dict[bool, list[dict[str, Any]]] = {way: [] for way in ways}
                for number in range(wanted.rounds):
                    for way in ways if number % 2 == 0 else ways[::-1]:
                        found[way].append(measured(port, streams, requests, wanted.tokenizer, number, is_plain=way))
                for way, results in found.items():
                    row = {"server": name, "streams": streams, "client": "vllm alone" if way else "windlass"}
                    rows.append(row | middle(results) | {"rounds": results})
                    shown = {key: value for key, value in rows[-1].items() if key != "rounds"}
                    print(json.dumps(shown), flush=True)
                    wanted.out.write_text(json.dumps(rows, indent=1) + "\n")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    main()
