"""`windlass run` by each method that drafts, from the sources of this repository, a keeper before each server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import httpx
import keeper
from beside import plugin

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "from windlass.cli.main import main; main()"
FIRST_PORT = 18601
CONTEXT, SMALL_CONTEXT = 2048, 1024
NAME = "target"
QUIET = {
    "WINDLASS_LICENSE_REQUIRED": "false", "WINDLASS_FIRST_CHAT": "false", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0",
}  # fmt: skip
"""FlashInfer's sampler is compiled at the first start."""
SMALL_WORDS = ("--dtype", "float32", "--enforce-eager", "--max-num-seqs", "8")
SMALL_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "WINDLASS_ENGINE": "cpu"}


FULL = {"cudagraph_mode": "FULL", "max_cudagraph_capture_size": 1024}
"""Graphs with attention inside, for steps that read prompts, too."""


@dataclass(frozen=True)
class Arm:
    """One way to draft: its name, and the words and variables that `windlass run` gets for it."""

    name: str
    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


def arms(models: Path, tokens: int, acceptances: Sequence[float]) -> list[Arm]:
    """Every method with the made drafters; heads again with the engine's synthetic acceptance, for the whole curve."""
    draft = ("--speculative-model", str(models / "draft"), "--num-speculative-tokens", str(tokens))
    found = [
        Arm("none", ()),
        Arm("none-tp2", ("--tensor-parallel-size", "2")),
        Arm("none-full", ("--compilation-config", json.dumps(FULL))),
        Arm("draft_model", draft),
        Arm("draft_model-host", (*draft, "--cpu-draft-worker")),
        Arm("draft_model-host-tp2", (*draft, "--cpu-draft-worker", "--tensor-parallel-size", "2")),
        Arm("draft_model-v1", draft, (("VLLM_USE_V2_MODEL_RUNNER", "0"),)),
        *(Arm(head, _config(models / head, tokens)) for head in ("eagle", "eagle3", "medusa")),
        Arm("lookahead", ("--use-lookahead", "--num-speculative-tokens", str(tokens))),
        Arm("draft_model+lookahead", (*draft, "--use-lookahead")),
        *(
            Arm(f"{head}+lookahead", (*_config(models / head, tokens), "--use-lookahead"))
            for head in ("eagle", "eagle3")
        ),
    ]
    for share in acceptances:
        rates = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": powers(share, tokens)}
        for name, folder in (("draft_model", "draft"), ("eagle3", "eagle3")):
            found.append(Arm(f"{name}@{share:g}", _config(models / folder, tokens, **rates)))
    return found


def powers(share: float, tokens: int) -> list[float]:
    """The chance that the first n drafts are all accepted, where each is with this one."""
    return [round(share**place, 6) for place in range(1, tokens + 1)]


def _config(folder: Path, tokens: int, **more: object) -> tuple[str, str]:
    return "--speculative-config", json.dumps({"model": str(folder), "num_speculative_tokens": tokens, **more})


@dataclass(frozen=True)
class Place:
    """Where servers run: a folder for models, logs and caches, and the share of a card; `is_small` is a CPU."""

    work: Path
    share: float = 0.9
    is_small: bool = False

    def log(self, arm: Arm) -> Path:
        """What a server says."""
        return self.work / f"{arm.name}.log"


@contextmanager
def serving(arm: Arm, at: int, place: Place, limit_s: float) -> Iterator[str | None]:
    """A server until the block ends; its address, or None when it did not come up."""
    port = FIRST_PORT + at
    with place.log(arm).open("wb") as log:
        server = keeper.start(
            _command(arm, port, place), stdout=log, stderr=log, env=os.environ | _variables(arm, port, place)
        )
    try:
        address = f"http://127.0.0.1:{port}"
        yield address if _answers(address, lambda: server.poll() is None, limit_s) else None
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(keeper.PATIENCE_S + 20)


def _command(arm: Arm, port: int, place: Place) -> list[str]:
    words = ["--model", str(place.work / "models/target"), "--served-model-name", NAME, "--port", str(port)]
    words += ["--max-model-len", str(SMALL_CONTEXT if place.is_small else CONTEXT), *arm.words]
    words += (
        SMALL_WORDS if place.is_small else ["--dtype", "bfloat16", "--gpu-memory-utilization", f"{place.share:.2f}"]
    )
    return [sys.executable, "-c", PROGRAM, "run", *words]


def _variables(arm: Arm, port: int, place: Place) -> dict[str, str]:
    folders = (plugin(place.work / "beside"), *(ROOT / f"{one}/src" for one in ("server", "lib/base", "lib/sizing")))
    path = ":".join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    own = {"PYTHONPATH": path, "WINDLASS_FACTS_PORT": str(port + 100)}
    own |= {"XDG_CACHE_HOME": str(place.work / "home"), "VLLM_CACHE_ROOT": str(place.work / f"cache-{arm.name}")}
    return QUIET | own | (SMALL_VARIABLES if place.is_small else {}) | dict(arm.variables)


def _answers(address: str, is_running: Callable[[], bool], limit_s: float) -> bool:
    until = time.monotonic() + limit_s
    while time.monotonic() < until and is_running():
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health", timeout=5).is_success:
                return True
        time.sleep(0.5)
    return False
