"""A process with one engine at a time, which answers the questions of `identity_parts`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from identity_parts import DRAWN_TOKENS, OUTPUT_TOKENS, PREEMPTED_PROMPT, Answer, K, Outputs, Part, Prompt, Question
from windlass.engine.lookahead.settings import VARIABLE, LookaheadSettings

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
"""One thread an engine: the model is small, so two engines side by side do more than two threads of one."""

CACHE_BYTES = 1 << 30
"""Room for the prompts of a workload, so that each is read once for all batch sizes."""
BLOCK, SAMPLES = 32, 50
SMALL_BLOCKS = 1 + 6 * (PREEMPTED_PROMPT // BLOCK + 1)
"""Six prompts find room and none of them can reach its end beside the other five; one alone always can."""


class Engine:
    """vLLM in this process, with lookahead in a mode, or without."""

    def __init__(self, model: str, mode: int | None, *, small: bool, broken: bool) -> None:
        from vllm import LLM

        self._mode, self._folder = mode, tempfile.mkdtemp()
        words: dict[str, Any] = {}
        if mode is not None:
            self._configure()
            drafts = {"method": "custom_class", "model": "windlass.engine.lookahead.vllm_cpu.HostProposer"}
            words = {"speculative_config": drafts | {"num_speculative_tokens": K}}
            words["worker_cls"] = "windlass.engine.lookahead.vllm_cpu.HostWorker"
        if small:
            words |= {"block_size": BLOCK, "num_gpu_blocks_override": SMALL_BLOCKS, "max_model_len": 512}
        common = {"dtype": "float32", "max_model_len": 1536, "max_num_seqs": 64, "enforce_eager": True}
        common |= {"distributed_executor_backend": "uni", "kv_cache_memory_bytes": CACHE_BYTES}
        self._llm = LLM(model, disable_log_stats=not small, **(common | words))
        if broken and mode is not None:
            corrupt(self._runner)

    @property
    def _runner(self) -> Any:
        return self._llm.llm_engine.model_executor.driver_worker.worker.model_runner

    def _configure(self, **options: float) -> None:
        known = {"cache_mode": self._mode, "cache_size": 10**6, **options}
        Path(self._folder, "lookahead_cache_config.json").write_text(json.dumps(known))
        os.environ[VARIABLE] = LookaheadSettings(config_dir=self._folder).to_json()

    def fresh(self, **options: float) -> None:
        """An empty lookahead cache with these options, as after a start; nothing without lookahead."""
        if self._mode is None:
            return
        from windlass.engine.lookahead.vllm_cpu import HostProposer

        self._configure(**options)
        runner = self._runner
        runner.drafter.close()
        runner.drafter = HostProposer(self._llm.llm_engine.vllm_config)
        runner.drafter.attach(runner)

    def forget_prompts(self) -> None:
        """Empty the prefix cache."""
        if not self._llm.reset_prefix_cache():
            raise RuntimeError("the engine did not empty its prefix cache")

    def decode(self, prompts: list[Prompt], batch: int) -> Outputs:
        """Greedy output of each prompt, `batch` requests in flight: the next one comes when one ends."""
        from vllm import SamplingParams

        self._llm.llm_engine.engine_core.engine_core.scheduler.max_num_active_reqs = batch
        greedy = SamplingParams(temperature=0, max_tokens=OUTPUT_TOKENS, ignore_eos=True, detokenize=False)
        found = self._llm.generate([{"prompt_token_ids": one} for one in prompts], greedy, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in found]

    def draw(self, prompt: Prompt, draws: int, batch: int) -> Outputs:
        """Sampled tokens, many times; with other random numbers in each mode: equal ones would make samples alike."""
        import torch
        from vllm import SamplingParams

        torch.manual_seed(1 if self._mode is None else 2 + self._mode)
        self._llm.llm_engine.engine_core.engine_core.scheduler.max_num_active_reqs = batch
        params = SamplingParams(
            temperature=0.7, max_tokens=DRAWN_TOKENS, ignore_eos=True, detokenize=False, n=min(SAMPLES, draws)
        )
        asked = [{"prompt_token_ids": prompt}] * max(1, draws // SAMPLES)
        outputs = self._llm.generate(asked, params, use_tqdm=False)
        return [list(sample.token_ids) for output in outputs for sample in output.outputs]

    def counts(self) -> tuple[int, int]:
        """Tokens drafted and accepted since `fresh`."""
        if self._mode is None:
            return 0, 0
        found = self._runner.drafter._drafting.cache.metrics()
        return found.lookahead_len, found.hit_len

    def preemptions(self) -> int:
        """Requests thrown out so far."""
        return int(next(one.value for one in self._llm.get_metrics() if one.name == "vllm:num_preemptions"))

    def close(self) -> None:
        """End it."""
        self._llm.llm_engine.engine_core.shutdown()
        os.environ.pop(VARIABLE, None)
        shutil.rmtree(self._folder)


def answer(engine: Engine, question: Question) -> Answer:
    """Do one part."""
    outputs: dict[int, Outputs] = {}
    drafted, accepted = {}, {}
    engine.forget_prompts()
    for batch in sorted(question.batches, reverse=True):
        if question.part.kind == "draws":
            engine.fresh(min_gain=0, copy_length=DRAWN_TOKENS - 1)  # drafts at every step, most of them wrong
            outputs[batch] = engine.draw(question.prompts[0], question.draws, batch)
        else:
            engine.fresh()
            outputs[batch] = engine.decode(question.prompts, batch)
        drafted[batch], accepted[batch] = engine.counts()
    preempted = engine.preemptions() if question.part.engine[1] else 0
    return Answer(outputs, drafted, accepted, preempted)


def corrupt(runner: Any) -> None:
    """Change the first draft that is accepted."""
    sampler = runner.rejection_sampler
    right = sampler.forward
    done: list[bool] = []

    def forward(*words: Any, **options: Any) -> Any:
        found = right(*words, **options)
        accepted = (found.sampled_token_ids[:, 1:] >= 0).any(dim=1)  # a token behind the first: that was a draft
        if not done and (rows := accepted.nonzero().flatten().tolist()):
            found.sampled_token_ids[rows[0], 0] = (found.sampled_token_ids[rows[0], 0] + 1) % 100
            done.append(True)
        return found

    sampler.forward = forward


def main(pipe: Connection, model: str, *, broken: bool) -> None:
    """Of the process: answer each question, with the engine that it needs, until there is none."""
    engine: Engine | None = None
    running: Part | None = None
    try:
        while question := pipe.recv():
            began_s = time.process_time()
            if engine is None or running is None or running.engine != question.part.engine:
                if engine:
                    engine.close()
                mode, small = question.part.engine
                engine = Engine(model, mode, small=small, broken=broken)
            running = question.part
            found = answer(engine, question)
            pipe.send((found, time.process_time() - began_s))
    except Exception:  # the outermost loop: the process that asks gets the traceback, which ends with 2
        pipe.send((traceback.format_exc(), 0.0))
        return
    if engine:
        engine.close()
