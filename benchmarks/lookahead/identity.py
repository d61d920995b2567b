"""Whether lookahead leaves the output as it is: on the CPU engine, greedy, in float32, token by token.

    python identity.py MODEL --traces DIRECTORY… [--rows 200] [--batches 1,4,16] [--modes 0,1,2] [--draws 20000]

Prints a line a workload, mode and batch size, then `RESULT {json}`; exit code 1 when a token differs, when fewer than
30 % of the tokens on repeats and edits are accepted drafts, when a distribution differs, or when nothing was preempted
in the run that must preempt. `--break-a-token` corrupts one accepted token, which must turn the result red.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")

import torch
from windlass.bench import tokens, traces
from windlass.lookahead.settings import VARIABLE, LookaheadSettings

PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 64
MUST_HIT = ("repeat", "code-edit")
LEAST_ACCEPTED = 0.3
LEAST_P = 1e-4
K = 6
SMALL_BLOCKS = 14
Prompt = list[int]


@dataclass
class Line:
    """One row of the table."""

    workload: str
    mode: int
    batch: int
    rows: int = 0
    tokens: int = 0
    different: int = 0
    accepted: float = 0.0
    """Share of the tokens that were accepted drafts."""
    preempted: int = 0
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """For a person."""
        what = (
            f"{self.workload:24} mode {self.mode} batch {self.batch:2}: {self.rows:3} outputs, {self.different} differ"
        )
        return f"{what}, {self.accepted:.0%} of the tokens are accepted drafts, {self.seconds} s"

    @property
    def fails(self) -> str:
        """Why this line is red, empty when it is not."""
        if self.different:
            return f"{self.different} of {self.rows} outputs differ"
        if self.workload.startswith(MUST_HIT) and self.accepted < LEAST_ACCEPTED:
            return f"only {self.accepted:.0%} of the tokens are accepted drafts"
        return ""


@contextmanager
def engine(model: str, mode: int | None, **options: Any) -> Iterator[Any]:  # noqa: ANN401 - the engine has no types here
    """An engine in this process; no mode: without lookahead."""
    from vllm import LLM

    words: dict[str, Any] = {}
    if mode is not None:
        folder = tempfile.mkdtemp()
        (Path(folder) / "lookahead_cache_config.json").write_text(json.dumps({"cache_mode": mode, "cache_size": 10**6}))
        os.environ[VARIABLE] = LookaheadSettings(config_dir=folder).to_json()
        drafts = {"method": "custom_class", "model": "windlass.lookahead.on_host.HostProposer"}
        words = {"speculative_config": drafts | {"num_speculative_tokens": K}}
        words["worker_cls"] = "windlass.lookahead.on_host.HostWorker"
    common = {"dtype": "float32", "max_model_len": 1536, "enforce_eager": True, "distributed_executor_backend": "uni"}
    llm = LLM(model, gpu_memory_utilization=0.2, disable_log_stats=False, **(common | words | options))
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()
        os.environ.pop(VARIABLE, None)


def counts(llm: Any) -> Any:  # noqa: ANN401
    """The cache's counts so far."""
    return llm.llm_engine.model_executor.driver_worker.worker.model_runner.drafter._drafting.cache.metrics()


def decode(llm: Any, prompts: list[Prompt], batch: int) -> list[tuple[int, ...]]:  # noqa: ANN401
    """Greedy output of each prompt, `batch` at a time."""
    from vllm import SamplingParams

    greedy = SamplingParams(temperature=0, max_tokens=OUTPUT_TOKENS, ignore_eos=True, detokenize=False)
    found: list[tuple[int, ...]] = []
    for at in range(0, len(prompts), batch):
        asked = [{"prompt_token_ids": prompt} for prompt in prompts[at : at + batch]]
        found += [tuple(one.outputs[0].token_ids) for one in llm.generate(asked, greedy, use_tqdm=False)]
    return found


def tables(said: argparse.Namespace, workloads: dict[str, list[Prompt]]) -> Iterator[Line]:
    """Every workload, mode and batch size."""
    base: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    with engine(said.model, None, max_num_seqs=16) as llm:
        for name, prompts in workloads.items():
            for batch in said.batches:
                base[name, batch] = decode(llm, prompts, batch)
    for mode in said.modes:
        with engine(said.model, mode, max_num_seqs=16) as llm:
            if said.break_a_token:
                corrupt(llm)
            for name, prompts in workloads.items():
                for batch in said.batches:
                    before, began = counts(llm), time.monotonic()
                    found = decode(llm, prompts, batch)
                    line = compared(Line(name, mode, batch), base[name, batch], found)
                    line.accepted = (counts(llm).hit_len - before.hit_len) / line.tokens
                    line.seconds = round(time.monotonic() - began, 1)
                    yield line


def compared(line: Line, base: list[tuple[int, ...]], found: list[tuple[int, ...]]) -> Line:
    """The line with what differs."""
    line.rows, line.tokens = len(found), sum(map(len, found))
    line.different = sum(one != other for one, other in zip(base, found, strict=True))
    return line


def preempted(said: argparse.Namespace, prompts: list[Prompt]) -> Line:
    """The same with room for a part of the batch, so that requests are thrown out and come back."""
    short = [prompt[:300] for prompt in prompts[:12]]
    with engine(said.model, None, max_num_seqs=16) as llm:
        base = decode(llm, short, 12)
    with engine(said.model, 2, max_num_seqs=16, block_size=32, num_gpu_blocks_override=SMALL_BLOCKS * 5) as llm:
        found = decode(llm, short, 12)
        line = compared(Line("preempted", 2, 12), base, found)
        line.accepted = counts(llm).hit_len / line.tokens
        line.preempted = int(next(one.value for one in llm.get_metrics() if one.name == "vllm:num_preemptions"))
    return line


def distribution(said: argparse.Namespace, prompt: Prompt) -> dict[str, float]:
    """Chi-square of the first three sampled tokens, with against without lookahead, whose drafts are mostly wrong."""
    with engine(said.model, None, max_num_seqs=64) as llm:
        one = drawn(llm, prompt, said.draws)
    with engine(said.model, 2, max_num_seqs=64) as llm:
        two = drawn(llm, prompt, said.draws)
        drafted = counts(llm).lookahead_len
    found = {f"p{place}": p_value([row[place] for row in one], [row[place] for row in two]) for place in range(3)}
    return found | {"draws": said.draws, "drafted": drafted}


def drawn(llm: Any, prompt: Prompt, draws: int) -> list[tuple[int, ...]]:  # noqa: ANN401
    """Three sampled tokens, many times."""
    from vllm import SamplingParams

    params = SamplingParams(temperature=0.7, max_tokens=3, ignore_eos=True, detokenize=False, n=50)
    outputs = llm.generate([{"prompt_token_ids": prompt}] * (draws // 50), params, use_tqdm=False)
    return [tuple(sample.token_ids) for output in outputs for sample in output.outputs]


def p_value(one: list[int], two: list[int]) -> float:
    """Of two samples being of one distribution; tokens that are rare in both together count as one."""
    first, second = Counter(one), Counter(two)
    often = [token for token in first | second if first[token] + second[token] >= 20]
    pairs = [(first[token], second[token]) for token in often]
    pairs.append((len(one) - sum(a for a, _ in pairs), len(two) - sum(b for _, b in pairs)))
    pairs = [pair for pair in pairs if sum(pair)]
    if len(pairs) < 2:
        return 1.0
    share = len(one) / (len(one) + len(two))
    statistic = sum((a - (a + b) * share) ** 2 / ((a + b) * share * (1 - share)) for a, b in pairs)
    half = torch.tensor((len(pairs) - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(half, torch.tensor(statistic / 2, dtype=torch.float64)))


def corrupt(llm: Any) -> None:  # noqa: ANN401
    """Change the first token that any draft leads to."""
    sampler = llm.llm_engine.model_executor.driver_worker.worker.model_runner.rejection_sampler
    right, done = sampler.forward, []

    def forward(*words: Any, **options: Any) -> Any:  # noqa: ANN401
        found = right(*words, **options)
        if not done:
            found.sampled_token_ids[0, 0] = (found.sampled_token_ids[0, 0] + 1) % 100
            done.append(True)
        return found

    sampler.forward = forward


def prompts_of(said: argparse.Namespace) -> dict[str, list[Prompt]]:
    """The workloads that have a file, in the model's tokens."""
    encode = tokens.tokenizer(f"{said.model}/tokenizer.json")
    found: dict[str, list[Prompt]] = {}
    for directory in said.traces:
        for path in sorted(directory.glob("*.jsonl.gz")):
            name = path.name.removesuffix(".jsonl.gz")
            if name not in found and (not said.workloads or name in said.workloads):
                found[name] = [encode(row.prompt)[-PROMPT_TOKENS:] or [1] for row in traces.read(path)[: said.rows]]
    return found


def words() -> argparse.Namespace:
    """The command line."""

    def numbers(text: str) -> list[int]:
        return [int(one) for one in text.split(",")]

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--traces", type=Path, nargs="+", default=[Path(__file__).parent / "traces"])
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=[])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--batches", type=numbers, default=[1, 4, 16])
    parser.add_argument("--modes", type=numbers, default=[0, 1, 2])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--break-a-token", action="store_true")
    return parser.parse_args()


def main() -> int:
    """The exit code."""
    said = words()
    workloads = prompts_of(said)
    red: list[str] = []
    lines: list[Line] = []
    for line in tables(said, workloads):
        lines.append(line)
        print(line.text, flush=True)
        red += [f"{line.workload}, mode {line.mode}, batch {line.batch}: {line.fails}"] if line.fails else []
    chances: dict[str, float] = {}
    if not said.break_a_token:
        lines.append(preempted(said, next(iter(workloads.values()))))
        red += [lines[-1].fails] if lines[-1].fails else [] if lines[-1].preempted else ["nothing was preempted"]
        chances = distribution(said, next(iter(workloads.values()))[0][-64:])
        red += [f"chi-square: {chances}"] if min(chances[f"p{place}"] for place in range(3)) < LEAST_P else []
        print(f"preempted {lines[-1].preempted} times, {lines[-1].different} outputs differ; chi-square {chances}")
    print("RESULT " + json.dumps({"red": red, "chances": chances, "lines": [asdict(line) for line in lines]}))
    return bool(red)


if __name__ == "__main__":
    sys.exit(main())
