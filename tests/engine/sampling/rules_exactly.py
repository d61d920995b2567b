"""Runs inside the serving image: the logits that drafts are judged by, beside those of a batch that never drafted.

Usage: rules_exactly.py CASES     Prints the cases that differ, and which rules met a draft, as a line of JSON.

A case is a step of the V1 runner: requests with drafts, each with rules of its own. Beside it every place of it is a
request without drafts, whose answer holds the drafts before the place. The engine's own sampler then says its logits.
"""

import json
import os
import random
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR"}

import numpy as np
import torch
from vllm import SamplingParams
from vllm.v1.sample import logits_processor, rejection_sampler
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
from windlass.engine.sampling import plugin
from windlass.engine.sampling.ngrams import PROCESSOR

VOCABULARY, ROWS = 13, 6
CPU = torch.device("cpu")
NO_RULE = "none"


@dataclass
class Request:
    """One row of a batch."""

    params: SamplingParams
    prompt: list[int]
    answer: list[int]
    drafts: list[int] = field(default_factory=list)
    bad_words: list[list[int]] = field(default_factory=list)

    def at(self, place: int) -> "Request":
        """The same as if its drafts before the place stood in the answer."""
        return Request(self.params, self.prompt, self.answer + self.drafts[:place], [], self.bad_words)


def rules(chance: random.Random) -> dict[str, Any]:
    """Some rules of a request; one in four has none."""
    some = {
        "min_p": chance.choice([0.05, 0.3, 1.0]),
        "logit_bias": {chance.randrange(VOCABULARY): chance.uniform(-9, 9) for _ in range(3)},
        "min_tokens": chance.randint(1, 8),
        "extra_args": {"no_repeat_ngram_size": chance.randint(1, 3)},
        "repetition_penalty": chance.uniform(1.1, 2),
        "presence_penalty": chance.uniform(-2, 2),
        "allowed_token_ids": chance.sample(range(VOCABULARY), 5),
        "bad_words": ["of the engine's own test"],
    }
    names = chance.sample(sorted(some), chance.choice([0, 1, 2, 4]))
    return {name: some[name] for name in names}


def request(chance: random.Random) -> Request:
    """A row with rules, an answer so far, and drafts."""

    def tokens(most: int) -> list[int]:
        return [chance.randrange(VOCABULARY) for _ in range(chance.randint(0, most))]

    chosen = rules(chance)
    stops = chance.sample(range(VOCABULARY), 2)
    params = SamplingParams(temperature=chance.choice([0, 0.5, 1.7]), max_tokens=64, stop_token_ids=stops, **chosen)
    bad = [[*tokens(2), chance.randrange(VOCABULARY)] for _ in range(2)] if "bad_words" in chosen else []
    return Request(params, [chance.randrange(VOCABULARY), *tokens(8)], tokens(12), tokens(4), bad)


def metadata(batch: list[Request], config: Any) -> SamplingMetadata:
    """What the runner hands to its samplers, with the processors that it would build."""
    processors = logits_processor.build_logitsprocs(config, CPU, False, False, [PROCESSOR])
    added = [(row, one.params, one.prompt, one.answer) for row, one in enumerate(batch)]
    for processor in processors.all:
        processor.update_state(BatchUpdate(len(batch), [], added, []))
    longest = max(len(one.prompt) for one in batch)
    prompts = [one.prompt + [VOCABULARY] * (longest - len(one.prompt)) for one in batch]
    params = [one.params for one in batch]
    allowed = torch.zeros(len(batch), VOCABULARY, dtype=torch.bool)
    for row, one in enumerate(params):
        if one.allowed_token_ids:
            allowed[row] = True
            allowed[row, one.allowed_token_ids] = False
    penalties = (
        torch.tensor([getattr(one, f"{name}_penalty") for one in params])
        for name in ("frequency", "presence", "repetition")
    )
    frequency, presence, repetition = penalties
    temperatures = torch.tensor([one.temperature for one in params])
    greedy = [one.temperature == 0 for one in params]
    return SamplingMetadata(
        temperature=None if all(greedy) else temperatures,
        all_greedy=all(greedy),
        all_random=not any(greedy),
        top_p=None,
        top_k=None,
        generators={},
        max_num_logprobs=None,
        no_penalties=not any(one.presence_penalty or one.repetition_penalty != 1 for one in params),
        prompt_token_ids=torch.tensor(prompts),
        frequency_penalties=frequency,
        presence_penalties=presence,
        repetition_penalties=repetition,
        output_token_ids=[one.answer for one in batch],
        allowed_token_ids_mask=allowed if any(one.allowed_token_ids for one in params) else None,
        bad_words_token_ids={row: one.bad_words for row, one in enumerate(batch) if one.bad_words},
        logitsprocs=processors,
        spec_token_ids=[one.drafts for one in batch],
    )


class Seen(Sampler):
    """The engine's sampler, which keeps the logits that it draws from."""

    def __init__(self) -> None:
        super().__init__()
        self.logits: torch.Tensor | None = None
        drawn = self.topk_topp_sampler.forward

        def draw(logits: torch.Tensor, *words: Any) -> Any:
            self.logits = logits.clone()
            return drawn(logits, *words)

        self.topk_topp_sampler.forward = draw

    def apply_logits_processors(self, *words: Any) -> torch.Tensor:
        self.logits = super().apply_logits_processors(*words)
        return self.logits


def without_drafts(batch: list[Request], logits: torch.Tensor) -> torch.Tensor:
    """Each place as a request of its own: the logits that the engine draws from."""
    sampler, places = Seen(), [one.at(place) for one in batch for place in range(len(one.drafts) + 1)]
    sampler(logits.clone(), metadata(places, config(speculates=False)))
    return sampler.logits


def with_drafts(batch: list[Request], logits: torch.Tensor) -> torch.Tensor:
    """The same places in one step with drafts."""
    counts = np.array([len(one.drafts) for one in batch])
    ends = np.cumsum(counts + 1)
    behind = torch.from_numpy(ends - 1)
    drafted = torch.tensor([at for at in range(len(logits)) if at not in behind], dtype=torch.long)
    step = SpecDecodeMetadata(
        draft_token_ids=torch.tensor([token for one in batch for token in one.drafts], dtype=torch.int32),
        num_draft_tokens=counts.tolist(),
        cu_num_draft_tokens=torch.from_numpy(np.cumsum(counts).astype(np.int32)),
        cu_num_sampled_tokens=torch.from_numpy(ends.astype(np.int32)),
        target_logits_indices=drafted,
        bonus_logits_indices=behind,
        logits_indices=torch.arange(len(logits)),
    )
    seen: list[torch.Tensor] = []
    sampler, judge = Seen(), rejection_sampler.rejection_sample

    def keep(*words: Any, **more: Any) -> Any:
        seen.append(words[5].clone())
        return torch.zeros(len(batch), int(counts.max()) + 1, dtype=torch.int32)

    rejection_sampler.rejection_sample = keep
    try:
        metadata_ = metadata(batch, config(speculates=True))
        rejection_sampler.RejectionSampler(sampler)(step, None, logits.clone(), metadata_)
    finally:
        rejection_sampler.rejection_sample = judge
    found = torch.empty_like(logits)
    found[drafted], found[behind] = seen[0], sampler.logits
    return found


def config(*, speculates: bool) -> Any:
    """What is read of the engine's configuration."""
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=64), speculative_config=object() if speculates else None
    )


def differs(batch: list[Request], chance: random.Random) -> list[str]:
    """The rules of the places that have other logits: at temperature 0 another likeliest token."""
    places = [(one, place) for one in batch for place in range(len(one.drafts) + 1)]
    logits = torch.tensor([[chance.gauss(0, 3) for _ in range(VOCABULARY)] for _ in places])
    wanted, found = without_drafts(batch, logits), with_drafts(batch, logits)
    wrong = []
    for (one, place), right, other in zip(places, wanted, found, strict=True):
        same = right.argmax() == other.argmax() if one.params.temperature == 0 else torch.equal(right, other)
        if not same:
            wrong.append(f"{names(one)} at {place} of {len(one.drafts)}, temperature {one.params.temperature}")
    return wrong


def names(one: Request) -> list[str]:
    """The rules of a request."""
    params = one.params
    chosen = {
        "min_p": params.min_p,
        "logit_bias": params.logit_bias,
        "min_tokens": params.min_tokens,
        "no_repeat_ngram_size": params.extra_args,
        "penalties": params.presence_penalty or params.repetition_penalty != 1,
        "allowed_token_ids": params.allowed_token_ids,
        "bad_words": one.bad_words,
    }
    return [name for name, value in chosen.items() if value]


def main(cases: int) -> dict[str, Any]:
    """What differs, and how many requests with drafts had each rule."""
    plugin.register()
    chance, wrong, met = random.Random(34), [], dict.fromkeys([NO_RULE], 0)  # noqa: S311 - draws cases, no secret
    for case in range(cases):
        batch = [request(chance) for _ in range(ROWS)]
        if not any(one.drafts for one in batch):
            continue
        wrong += [f"case {case}: {one}" for one in differs(batch, chance)]
        for one in batch:
            for name in names(one) or [NO_RULE]:
                met[name] = met.get(name, 0) + bool(one.drafts)
    return {"wrong": wrong, "met": met}


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(int(sys.argv[1]))))
