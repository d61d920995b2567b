"""Engines beside one another on one GPU, each in a process of its own, asked one at a time."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import keeper
from windlass.launch.lookahead import CONTEXT_TOKENS, COSTS_CONTEXT

Exchange = tuple[list[int], list[int]]
"""A prompt and the text that follows it, in token ids."""


@dataclass
class Arm:
    """One engine: its name, its words, and its variables."""

    name: str
    options: dict[str, Any]
    variables: dict[str, str] = field(default_factory=dict)
    _pipe: Connection | None = None

    @property
    def pipe(self) -> Connection:
        """To its process."""
        if self._pipe is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._pipe

    def start(self) -> None:
        """Begin to load; `ready` waits for it."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        context.Process(target=_main, args=(self.options, self.variables, theirs), daemon=False).start()
        theirs.close()  # so that a process that is killed is not waited for

    def ask(self, word: str, *values: Any) -> Any:  # noqa: ANN401 - whatever the engine answers
        """Ask, and wait for the answer."""
        self.pipe.send((word, values))
        return self.answer()

    def end(self) -> None:
        """Let it go."""
        self.pipe.send(("end", ()))

    def answer(self) -> Any:  # noqa: ANN401
        """The next answer."""
        try:
            fine, found = self.pipe.recv()
        except EOFError:
            fine, found = False, "its process ended without a word"
        if not fine:
            print(f"{self.name}: {found}", file=sys.stderr, flush=True)
            os._exit(1)  # the other engines would be waited for
        return found


def lookahead(most: int, config_dir: str, *, adaptive: bool = True) -> tuple[dict[str, Any], dict[str, str]]:
    """Arguments and variables of the GPU integration, as `windlass run` gives them."""
    speculation = {
        "method": "ngram_gpu",
        "num_speculative_tokens": most,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
        "enable_adaptive_verification": adaptive,
    }
    words = {
        "speculative_config": speculation,
        "worker_cls": "bench_worker.BenchWorker",
        "scheduler_cls": "windlass.engine.lookahead.scheduler.LookaheadScheduler",
    }
    known = {"config_dir": config_dir, "counts_dir": f"{config_dir}/counts"}
    return words, {"WINDLASS_LOOKAHEAD": json.dumps(known), COSTS_CONTEXT: str(CONTEXT_TOKENS)}


def _main(options: dict[str, Any], variables: dict[str, str], pipe: Connection) -> None:
    keeper.keep()  # the engine's own processes end with this one, and this one with the benchmark
    os.environ.update(variables)
    try:
        engine = _Engine(options)
        pipe.send((True, "ready"))
        while True:
            word, values = pipe.recv()
            if word == "end":
                break
            pipe.send((True, getattr(engine, word)(*values)))
    except Exception:  # the outermost loop: reported to the process that asks
        pipe.send((False, traceback.format_exc()[-3000:]))
    os._exit(0)


class _Engine:
    def __init__(self, options: dict[str, Any]) -> None:
        from vllm import LLM

        self.llm = LLM(skip_tokenizer_init=True, disable_log_stats=False, enable_prefix_caching=False, **options)

    def call(self, method: str, *values: Any) -> Any:  # noqa: ANN401
        """A method of the worker."""
        return self.llm.collective_rpc(method, args=values)[0]

    def run(
        self, rows: list[Exchange], tokens: int, forced: bool, logprobs: int | None = None, temperature: float = 0
    ) -> Any:  # noqa: ANN401
        """Decode all rows at once; ms a token from the first token on, and the tokens."""
        from vllm import SamplingParams

        prompts = [{"prompt_token_ids": prompt} for prompt, _ in rows]
        params = [
            SamplingParams(
                temperature=temperature,
                max_tokens=min(tokens, len(output)) if forced else tokens,
                ignore_eos=True,
                detokenize=False,
                logprobs=logprobs,
                extra_args={"trace": output} if forced else None,
            )
            for _, output in rows
        ]
        self.llm.sleep(level=0)  # so that all requests of a run are there before its first step
        self.llm.enqueue(prompts, params, use_tqdm=False)
        self.llm.wake_up(tags=["scheduling"])
        outputs = self.llm.wait_for_completion(use_tqdm=False)
        spent, made = 0.0, 0
        for output in outputs:
            times, count = output.metrics, len(output.outputs[0].token_ids)
            if count > 1:
                spent += times.last_token_ts - times.first_token_ts
                made += count - 1
        found = [list(output.outputs[0].token_ids) for output in outputs]
        best = [_best(output.outputs[0].logprobs) for output in outputs] if logprobs else []
        return {"ms": 1000 * spent / max(1, made), "tokens": made, "ids": found, "best": best}


def _best(logprobs: Any) -> list[float]:  # noqa: ANN401
    """How far the best token of each place is before the second."""
    values = [sorted((one.logprob for one in place.values()), reverse=True) for place in logprobs]
    return [place[0] - place[1] for place in values]
