"""An engine in a process of its own, which is asked one thing at a time and ends with the process that asks."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
import keeper

START_S = 300


@dataclass
class Engine:
    """One arm: its name, the words of its LLM, and its variables."""

    name: str
    options: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    pipe: Connection | None = None
    process: Any = None

    def start(self) -> None:
        """Begin to load; `is_ready` waits for it."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_main, args=(self.options, self.variables, theirs), daemon=False)
        self.process.start()
        theirs.close()

    def is_ready(self) -> bool:
        """Whether it came up; what it said otherwise is printed."""
        fine, found = self._answer(START_S)
        if not fine:
            print(f"{self.name}: {found}", flush=True)
        return bool(fine)

    def ask(self, word: str, *values: Any) -> Any:  # noqa: ANN401 - whatever the engine answers
        """Ask, and wait for the answer.

        Raises:
            RuntimeError: the engine failed.
        """
        self.send(word, *values)
        fine, found = self._answer(120)
        if not fine:
            raise RuntimeError(f"{self.name}: {found}")
        return found

    def send(self, word: str, *values: Any) -> None:  # noqa: ANN401
        """Ask, without waiting."""
        assert self.pipe  # noqa: S101 - started by its maker
        self.pipe.send((word, values))

    def end(self) -> None:
        """Let it go, by pid."""
        if self.process and self.process.is_alive():
            self.process.terminate()
            self.process.join(20)
            self.process.kill()

    def _answer(self, limit_s: float) -> tuple[bool, Any]:
        assert self.pipe  # noqa: S101 - started by its maker
        try:
            return self.pipe.recv() if self.pipe.poll(limit_s) else (False, f"no answer in {limit_s:g} s")
        except EOFError:
            return False, "its process ended without a word"


def _main(options: dict[str, Any], variables: dict[str, str], pipe: Connection) -> None:
    keeper.keep()  # the engine's own processes end with this one, and this one with the benchmark
    os.environ.update({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", **variables})
    try:
        arm = _Arm(options)
        pipe.send((True, "ready"))
        while True:
            word, values = pipe.recv()
            pipe.send((True, getattr(arm, word)(*values)))
    except Exception:  # the outermost loop: reported to the process that asks
        pipe.send((False, traceback.format_exc()[-3000:]))
    finally:
        os._exit(0)


class _Arm:
    def __init__(self, options: dict[str, Any]) -> None:
        from vllm import LLM

        self.llm = LLM(**options)

    def _params(self, tokens: int) -> Any:  # noqa: ANN401
        from vllm import SamplingParams

        return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)

    def token(self, prompt: list[int]) -> float:
        """Milliseconds to the first token of a prompt, as the caller sees them."""
        begun = time.perf_counter()
        self.llm.generate([{"prompt_token_ids": prompt}], self._params(1), use_tqdm=False)
        return 1000 * (time.perf_counter() - begun)

    def texts(self, prompts: list[list[int]], tokens: int) -> list[list[int]]:
        """The tokens after each prompt, one prompt at a time, so that batches are alike."""
        found = []
        for prompt in prompts:
            output = self.llm.generate([{"prompt_token_ids": prompt}], self._params(tokens), use_tqdm=False)[0]
            found.append(list(output.outputs[0].token_ids))
        return found

    def counted(self) -> dict[str, float]:
        """The engine's own counters of the prefix cache, in tokens and bytes."""
        wanted = ("prefix_cache", "kv_offload", "prefix_offload")
        return {
            metric.name: metric.value
            for metric in self.llm.get_metrics()
            if hasattr(metric, "value") and any(word in metric.name for word in wanted)
        }

    def decode(self, prompts: list[list[int]], tokens: int) -> float:
        """Milliseconds a token, from each request's first token on."""
        outputs = self.llm.generate(
            [{"prompt_token_ids": prompt} for prompt in prompts], self._params(tokens), use_tqdm=False
        )
        return _ms_a_token(outputs)

    def beside(self, prompts: list[list[int]], tokens: int, prefixes: list[list[int]]) -> float:
        """Milliseconds a token of `prompts` while the first token after each prefix is asked for."""
        asked = [{"prompt_token_ids": prompt} for prompt in (*prompts, *prefixes[:2])]
        params = [self._params(tokens)] * len(prompts) + [self._params(1)] * 2
        return _ms_a_token(self.llm.generate(asked, params, use_tqdm=False)[: len(prompts)])

    def copy(self, size: int) -> float:
        """Milliseconds of one copy of so many bytes from pinned host memory; the least of five."""
        import torch

        source, target = (
            torch.empty(size, dtype=torch.int8, pin_memory=True),
            torch.empty(size, dtype=torch.int8, device="cuda"),
        )
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            times.append(1000 * (time.perf_counter() - begun))
        return min(times)


def _ms_a_token(outputs: list[Any]) -> float:
    spent, made = 0.0, 0
    for output in outputs:
        times, count = output.metrics, len(output.outputs[0].token_ids)
        spent += times.last_token_ts - times.first_token_ts
        made += count - 1
    return 1000 * spent / max(1, made)
