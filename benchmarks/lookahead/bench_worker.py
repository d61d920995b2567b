"""The GPU integration with what a benchmark needs beside it: a cache that can be set back, figures.

And a quiet start.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from windlass.engine.lookahead.vllm_gpu import DeviceWorker

AFTER = "LOOKAHEAD_AFTER"
"""A file to wait for before kernels are timed: costs that were timed beside another engine's start mean nothing."""
WAIT_S_MAX = 240
TOKENIZER = "benchmark"
TEMP = tempfile.gettempdir()


def _state(name: str) -> Path:
    return Path(TEMP, f"lookahead-state-{name.replace(' ', '-')}")


class BenchWorker(DeviceWorker):  # type: ignore[misc]  # the engine has no types here
    """Named by `worker_cls`; its methods are called by `collective_rpc`."""

    def compile_or_warm_up_model(self) -> Any:  # noqa: ANN401 - the engine has no types here
        """Wait for a quiet device first."""
        until = time.monotonic() + WAIT_S_MAX
        while (path := os.environ.get(AFTER)) and not Path(path).exists() and time.monotonic() < until:
            time.sleep(0.2)
        return super().compile_or_warm_up_model()

    def base(self, name: str, rows: list[tuple[list[int], list[int]]]) -> None:
        """Make a state of the cache that `back` returns to: these exchanges, and nothing else."""
        cache = self._cache()
        empty, path = Path(TEMP, "lookahead-empty"), _state(name)
        if not empty.exists():
            cache.save(empty, TOKENIZER)
        cache.save(Path(TEMP, "lookahead-last"), TOKENIZER)  # what still waits to be shared goes with it
        cache.load(empty, TOKENIZER)
        for prompt, output in rows:
            cache.teach(prompt, output)
        cache.save(path, TOKENIZER)

    def back(self, name: str) -> None:
        """Return to a state; what ended requests still had to share goes with the state that is left."""
        self._cache().save(Path(TEMP, "lookahead-last"), TOKENIZER)
        self._cache().load(_state(name), TOKENIZER)

    def figures(self) -> dict[str, Any]:
        """The counts of the cache and of the round trips so far."""
        drafter = self.model_runner.lookahead._drafter
        return asdict(drafter.trip.counts()) | asdict(self._cache().metrics())

    def card(self) -> str:
        """The name of the GPU."""
        return str(torch.cuda.get_device_name(self.device))

    def _cache(self) -> Any:  # noqa: ANN401
        return self.model_runner.lookahead._drafter._drafting.cache
