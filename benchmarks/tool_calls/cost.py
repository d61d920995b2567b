"""Cost of bound arguments: tokens a second of forced tool calls, with free arguments, and without any grammar.

    export PYTHONPATH=server/src:lib/base/src:lib/sizing/src
    python benchmarks/tool_calls/cost.py OUT.jsonl --work FOLDER [--rounds 5]

The model has an 8B's shape, a vocabulary of 128,256, random weights and the demo's tokenizer. Each answer has as many
tokens as the others: the schema asks for a list that is longer. The three kinds take turns; ratios are of pairs of a
round. --small takes the demo's own shape.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import httpx
import keeper
from beside import ROOT, plugin

PORT, START_S_MAX, TOKENS = 18901, 400, 256
CLIENTS = (1, 10, 64)
LARGE = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
}  # fmt: skip
QUIET = {
    "WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FIRST_CHAT": "false", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "PYTHONUNBUFFERED": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0",
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"values": {"type": "array", "items": {"type": "integer"}, "minItems": TOKENS}},
    "required": ["values"],
    "additionalProperties": False,
}


def tool(name: str, **more: object) -> dict[str, Any]:
    """A function of one argument, forced."""
    function = {"name": name, "parameters": SCHEMA, **more}
    choice = {"type": "function", "function": {"name": name}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


KINDS: dict[str, dict[str, Any]] = {"none": {}, "free": tool("noted", strict=False), "bound": tool("noted")}


def model(folder: Path, *, is_small: bool) -> Path:
    """The demo's files, with the shape of a large model."""
    place = folder / "model"
    shutil.copytree(ROOT / "models/demo", place, dirs_exist_ok=True)
    if not is_small:
        (place / "model.safetensors").unlink(missing_ok=True)
        config = json.loads((place / "config.json").read_text()) | LARGE
        (place / "config.json").write_text(json.dumps(config))
    return place


@contextlib.contextmanager
def served(folder: Path, *, is_small: bool) -> Iterator[str]:
    """The address of a server of the model."""
    words = ["run", "--model", str(model(folder, is_small=is_small)), "--served-model-name", "m", "--port", str(PORT)]
    words += ["--max-model-len", "2048", "--tool-call-parser", "hermes", "--enable-auto-tool-choice"]
    words += [] if is_small else ["--load-format", "dummy", "--dtype", "bfloat16"]
    sources = (plugin(folder / "beside"), *(ROOT / f"{one}/src" for one in ("server", "lib/base", "lib/sizing")))
    own = {"PYTHONPATH": ":".join([*map(str, sources), os.environ.get("PYTHONPATH", "")])}
    own |= {"XDG_CACHE_HOME": str(folder / "home"), "VLLM_CACHE_ROOT": str(folder / "cache")}
    program = [sys.executable, "-c", "from windlass.cli.main import main; main()", *words]
    with (folder / "log").open("wb") as log:
        server = keeper.start(program, stdout=log, stderr=log, env=os.environ | QUIET | own)
    try:
        url, until = f"http://127.0.0.1:{PORT}", time.monotonic() + START_S_MAX
        while time.monotonic() < until and server.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/health", timeout=5).is_success:
                    break
            time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(keeper.PATIENCE_S + 20)


def rate(url: str, kind: str, clients: int) -> float:
    """Tokens a second of so many requests at once."""
    more = {"min_tokens": TOKENS, "ignore_eos": True} if kind == "none" else {}

    def answer_tokens(number: int) -> int:
        body = {"model": "m", "max_tokens": TOKENS, "temperature": 1, "seed": number, **more, **KINDS[kind]}
        body["messages"] = [{"role": "user", "content": f"list {number}"}]
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=300)
        answer.raise_for_status()
        return int(answer.json()["usage"]["completion_tokens"])

    begun = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        tokens = sum(pool.map(answer_tokens, range(clients)))
    return tokens / (time.monotonic() - begun)


def row(clients: int, rounds: list[dict[str, float]]) -> str:
    """A row of the table: medians, and medians of the ratios of pairs."""
    medians = [statistics.median(one[kind] for one in rounds) for kind in KINDS]
    free, bound = (statistics.median(one[kind] / one["none"] for one in rounds) for kind in ("free", "bound"))
    pair = sorted(one["bound"] / one["free"] for one in rounds)
    cells = [f"{value:.0f}" for value in medians] + [f"{free:.3f}", f"{bound:.3f}"]
    return f"| {clients} | {' | '.join(cells)} | {statistics.median(pair):.3f} ({pair[0]:.3f} to {pair[-1]:.3f}) |"


def main() -> None:
    """All kinds in turns, by number of clients; a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for model, log and caches")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="the demo's own shape")
    words = parser.parse_args()
    words.work.mkdir(parents=True, exist_ok=True)
    with served(words.work.resolve(), is_small=words.small) as url, words.out.open("w") as file:
        print("| clients | none | free | bound | free / none | bound / none | bound / free |\n|" + " --- |" * 7)
        for clients in CLIENTS:
            for kind in KINDS:
                rate(url, kind, clients)
            rounds = [{kind: rate(url, kind, clients) for kind in KINDS} for _ in range(words.rounds)]
            file.writelines(json.dumps({"clients": clients, **one}) + "\n" for one in rounds)
            file.flush()
            print(row(clients, rounds), flush=True)


if __name__ == "__main__":
    main()
