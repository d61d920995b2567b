"""Microseconds that rules of sampling add to a step of the V1 runner.

    python rules_cost.py [--rows 16] [--vocabulary 32000]

A step has four drafts a row. Its sampler runs without its last part, the acceptance of drafts, which no rule changes.
`engine` is vLLM's own sampler; the other lines are ours, first with no rule and then with one that every row asks for.
The least of repeats that alternate between the lines. `check` is what our sampler does more where nobody asks.
"""

from __future__ import annotations

import argparse
import json
import time
import timeit
from types import SimpleNamespace
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample import logits_processor, rejection_sampler
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessors
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
from windlass.sampling import plugin
from windlass.sampling.start_command import PROCESSOR

DRAFTS, TOKENS, REPEATS = 4, 1000, 60
RULES: dict[str, dict[str, Any]] = {
    "engine": {},
    "no rule": {},
    "min_p": {"min_p": 0.1},
    "logit_bias": {"logit_bias": {7: 1.0, 11: -100.0}},
    "no_repeat_ngram_size 3": {"extra_args": {"no_repeat_ngram_size": 3}},
    "no_repeat_ngram_size 1": {"extra_args": {"no_repeat_ngram_size": 1}},
}


def metadata(rows: int, rule: dict[str, Any], processors: LogitsProcessors) -> SamplingMetadata:
    """A batch of equal requests at temperature 1, with 1,000 tokens each."""
    params = SamplingParams(temperature=1.0, **rule)
    added = [(row, params, [(row + at * at) % 1999 for at in range(TOKENS)], []) for row in range(rows)]
    for processor in processors.all:
        processor.update_state(BatchUpdate(rows, [], added, []))
    none = torch.zeros(rows)
    return SamplingMetadata(
        temperature=torch.ones(rows),
        all_greedy=False,
        all_random=True,
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=none,
        presence_penalties=none,
        repetition_penalties=none,
        output_token_ids=[[] for _ in range(rows)],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=processors,
    )


def drafted(rows: int) -> SpecDecodeMetadata:
    """The step's drafts and where their logits lie."""
    places = torch.arange(rows * (DRAFTS + 1)).view(rows, -1)
    ends = torch.arange(1, rows + 1, dtype=torch.int32)
    return SpecDecodeMetadata(
        draft_token_ids=torch.arange(rows * DRAFTS, dtype=torch.int32),
        num_draft_tokens=[DRAFTS] * rows,
        cu_num_draft_tokens=ends * DRAFTS,
        cu_num_sampled_tokens=ends * (DRAFTS + 1),
        target_logits_indices=places[:, :-1].flatten(),
        bonus_logits_indices=places[:, -1].clone(),
        logits_indices=places.flatten(),
    )


def measure(rows: int, vocabulary: int) -> dict[str, float]:
    """Microseconds a step, by line."""
    config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=rows), speculative_config=object())
    rejection_sampler.rejection_sample = lambda *_, **__: torch.zeros(rows, DRAFTS + 1, dtype=torch.int32)
    own = rejection_sampler.RejectionSampler.forward, rejection_sampler.RejectionSampler.apply_logits_processors
    device, step = torch.device("cpu"), drafted(rows)
    engines = logits_processor.build_logitsprocs(config, device, False, False)
    plugin.register()
    batches = {
        name: metadata(
            rows,
            rule,
            engines
            if name == "engine"
            else logits_processor.build_logitsprocs(config, device, False, False, [PROCESSOR]),
        )
        for name, rule in RULES.items()
    }
    ours = rejection_sampler.RejectionSampler.forward, rejection_sampler.RejectionSampler.apply_logits_processors
    sampler = rejection_sampler.RejectionSampler(Sampler())
    logits = torch.randn(rows * (DRAFTS + 1), vocabulary)
    took: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(REPEATS):
        for name, batch in batches.items():
            kept = own if name == "engine" else ours
            rejection_sampler.RejectionSampler.forward, rejection_sampler.RejectionSampler.apply_logits_processors = (
                kept
            )
            began = time.perf_counter()
            sampler(step, None, logits, batch)
            took[name].append(time.perf_counter() - began)
    return {name: round(min(times) * 1e6, 1) for name, times in took.items()} | {"check": check_us(batches["no rule"])}


def check_us(batch: SamplingMetadata) -> float:
    """Twice a step: whether a request of the batch has a rule."""
    from windlass.sampling.draft_rules import asked

    return round(min(timeit.repeat(lambda: (asked(batch), asked(batch)), number=1000, repeat=20)) * 1e3, 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    words = parser.parse_args()
    torch.set_num_threads(1)
    print("RESULT " + json.dumps({**vars(words), "microseconds": measure(words.rows, words.vocabulary)}))
