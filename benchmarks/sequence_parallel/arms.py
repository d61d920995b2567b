"""The engines that are compared, each in a process of its own that ends with the benchmark, and their models."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
import keeper

START_S = 240
ENDING_S = 20
ANSWER_S = 120
SPLIT = {
    "prefill_context_parallel_size": 2,
    "attention_backend": "CUSTOM",
    "worker_cls": "windlass.engine.sequence_parallel.worker.SequenceParallelWorker",
}
"""What `windlass run --sequence-parallel-size 2` gives the engine."""


def tensor(ranks: int) -> dict[str, Any]:
    """Tensor parallelism; a sum over cards with its norm is a library that is built at the first start, for minutes."""
    return {"tensor_parallel_size": ranks, "compilation_config": {"pass_config": {"fuse_allreduce_rms": False}}}


TENSOR = tensor(2)
NO_LINK = {"NCCL_P2P_DISABLE": "1"}
OWN_SUM = {"disable_custom_all_reduce": True}
"""vLLM's own all-reduce goes over the link, whatever NCCL may use."""
FP8 = {"quantization": "windlass_fp8"}
GIVEN = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3").split(",")
"""The GPUs of the benchmark."""
FIRST = {"CUDA_VISIBLE_DEVICES": GIVEN[0]}
ARMS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "one": ({}, FIRST),
    "sp2": (SPLIT, {}),
    "tp2": (TENSOR, {}),
    "tp2-no-link": ({**TENSOR, **OWN_SUM}, NO_LINK),
    "sp2-no-link": (SPLIT, NO_LINK),
    "tp4": (tensor(4), {}),
    "tp2-sp2": ({**TENSOR, **SPLIT}, {}),
    "one-fp8": (FP8, FIRST),
    "sp2-fp8": ({**SPLIT, **FP8}, {}),
    "tp2-fp8": ({**TENSOR, **FP8}, {}),
    "tp2-fp8-no-link": ({**TENSOR, **FP8, **OWN_SUM}, NO_LINK),
    "sp2-fp8-no-link": ({**SPLIT, **FP8}, NO_LINK),
}
"""Options of the engine beyond the common ones, and variables."""
COMMON = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""FlashInfer's kernels are compiled at the first start; symmetric memory wants multicast of the link."""


@dataclass
class Arm:
    """One engine: its name, its log, and the folder for what it compiles."""

    name: str
    options: dict[str, Any]
    variables: dict[str, str]
    folder: Path
    begun: float = field(default_factory=time.monotonic)
    pipe: Connection | None = None
    process: Popen[Any] | None = None

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Begin to load; `is_ready` waits for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = self.folder / f"{self.name}.json"
        options.write_text(json.dumps(self.options))
        self.pipe, theirs = Pipe()
        own = {"VLLM_CACHE_ROOT": str(self.folder / f"cache-{self.name}"), "PYTHONUNBUFFERED": "1"}
        self.begun = time.monotonic()
        with self.log.open("wb") as log:
            self.process = keeper.start(
                [sys.executable, str(Path(__file__).with_name("arm.py")), str(theirs.fileno()), str(options)],
                stdout=log, stderr=log, patience_s=10, env={**os.environ, **COMMON, **own, **self.variables},
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
        theirs.close()

    def is_ready(self, limit_s: float = START_S) -> bool:
        """Whether it came up; what it printed otherwise is in its log."""
        fine, found = self._answer(max(1.0, self.begun + limit_s - time.monotonic()))
        print(f"{self.name}: {found} after {time.monotonic() - self.begun:.0f} s", flush=True)
        if not fine:
            print(tail(self.log), flush=True)
            self.end()
        return bool(fine)

    def ask(self, word: str, *values: Any, limit_s: float = ANSWER_S) -> Any:  # noqa: ANN401 - whatever it answers
        """Ask, and wait for the answer.

        Raises:
            RuntimeError: the engine failed, or did not answer.
        """
        assert self.pipe  # noqa: S101 - it is ready
        self.pipe.send((word, values))
        fine, found = self._answer(limit_s)
        if not fine:
            raise RuntimeError(f"{self.name}: {found}\n{tail(self.log)}")
        return found

    def _answer(self, limit_s: float) -> tuple[bool, Any]:
        assert self.pipe  # noqa: S101 - it was started
        try:
            return self.pipe.recv() if self.pipe.poll(limit_s) else (False, f"no answer in {limit_s:g} s")
        except (EOFError, OSError) as why:
            return False, f"its process ended: {why!r}"

    def end(self) -> None:
        """Let it go, by pid; its keeper ends what it started."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(TimeoutExpired):
                self.process.wait(ENDING_S)


def tail(log: Path, size: int = 3000) -> str:
    """Lines of a log that tell of an error, and its end."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if "Error" in line or "error:" in line][:12]
    return "\n".join([f"--- {log.name}", *errors, "...", "\n".join(lines)[-size:]])


def begun(names: list[str], options: dict[str, Any], folder: Path) -> dict[str, Arm]:
    """Every arm, loading beside one another."""
    arms = [Arm(name, merged(options, ARMS[name][0]), ARMS[name][1], folder) for name in names]
    for arm in arms:
        arm.start()
    return {arm.name: arm for arm in arms}


def started(names: list[str], options: dict[str, Any], folder: Path, limit_s: float = START_S) -> dict[str, Arm]:
    """Every arm, loaded; those that cannot start are left out, and printed."""
    return {name: arm for name, arm in begun(names, options, folder).items() if arm.is_ready(limit_s)}


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Options of both; those of the compilation are merged."""
    inner = {**one.get("compilation_config", {}), **other.get("compilation_config", {})}
    return {**one, **other, **({"compilation_config": inner} if inner else {})}
