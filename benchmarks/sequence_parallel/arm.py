"""One engine in a process of its own, asked over a pipe: `arms.Arm` starts it.

    python arm.py DESCRIPTOR OPTIONS.json

Each message is a word and its values; the answer is a pair of whether it went well and what was found.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def main() -> None:
    """Load, then answer until the other side hangs up."""
    options = json.loads(Path(sys.argv[2]).read_text())
    os.set_inheritable(int(sys.argv[1]), False)  # else the engine's processes keep it open
    with Connection(int(sys.argv[1])) as pipe:
        try:
            answers = Answers(options)
            pipe.send((True, "ready"))
            while True:
                word, values = pipe.recv()
                pipe.send((True, getattr(answers, word)(*values)))
        except EOFError:
            pass
        except Exception:  # the outermost loop: the benchmark gets it, and the log
            traceback.print_exc()
            pipe.send((False, traceback.format_exc()[-2000:]))
    os._exit(0)


class Answers:
    """What an engine can be asked."""

    def __init__(self, options: dict[str, Any]) -> None:
        from vllm import LLM

        self.llm = LLM(**options)

    def first_token(self, prompt: list[int]) -> float:
        """Milliseconds to the first token of a prompt, as the caller sees them."""
        begun = time.perf_counter()
        self.llm.generate([{"prompt_token_ids": prompt}], _greedy(1), use_tqdm=False)
        return 1000 * (time.perf_counter() - begun)

    def decode(self, prompts: list[list[int]], tokens: int) -> float:
        """Milliseconds a token after the first, of requests beside one another."""
        outputs = self.llm.generate([{"prompt_token_ids": one} for one in prompts], _greedy(tokens), use_tqdm=False)
        spent = sum(out.metrics.last_token_ts - out.metrics.first_token_ts for out in outputs)
        return 1000 * spent / (len(outputs) * (tokens - 1))

    def prompt_logprobs(self, prompts: list[list[int]]) -> list[list[float]]:
        """The log-probability of each token of each prompt but the first."""
        outputs = self.llm.generate(
            [{"prompt_token_ids": one} for one in prompts], _greedy(1, prompt_logprobs=0), use_tqdm=False
        )
        return [
            [found[token].logprob for token, found in zip(prompt[1:], out.prompt_logprobs[1:], strict=True)]
            for prompt, out in zip(prompts, outputs, strict=True)
        ]

    def answers(self, prompts: list[list[int]], tokens: int) -> list[tuple[list[int], list[dict[int, float]], int]]:
        """By prompt: the answer, the likeliest tokens at each place with log-probabilities, cached prompt tokens."""
        outputs = self.llm.generate(
            [{"prompt_token_ids": one} for one in prompts], _greedy(tokens, logprobs=5), use_tqdm=False
        )
        return [
            (
                list(out.outputs[0].token_ids),
                [{token: one.logprob for token, one in place.items()} for place in out.outputs[0].logprobs],
                out.num_cached_tokens or 0,
            )
            for out in outputs
        ]


def _greedy(tokens: int, **more: Any) -> Any:  # noqa: ANN401 - the engine's own
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, **more)


if __name__ == "__main__":
    main()
