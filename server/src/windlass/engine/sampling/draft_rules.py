"""Rules of sampling at each drafted place, for vLLM's V1 runner: every CPU, and some drafters on GPUs.

A step's logits have a row for each draft of each request, and one behind the last. A row is the model's choice after
the drafts before it, so each rule counts these as if they stood in the answer. The distribution of the output is then
that without speculation, since the engine accepts drafts by these very rows.

Order matters where a bias meets a penalty: the engine without speculation adds biases first, so this module does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import (
    LogitBiasLogitsProcessor,
    LogitsProcessors,
    MinPLogitsProcessor,
    MinTokensLogitsProcessor,
)
from vllm.v1.sample.rejection_sampler import RejectionSampler

from windlass.engine.sampling import spread
from windlass.engine.sampling.on_host import OnHost

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.outputs import SamplerOutput
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

OWN_FORWARD, OWN_RULES = RejectionSampler.forward, RejectionSampler.apply_logits_processors
GREEDY_BELOW = 1e-5
"""The engine's own: a temperature below it takes the likeliest token, which `min_p` never removes."""


class MinTokens(MinTokensLogitsProcessor):  # type: ignore[misc]  # the engine has no types here
    """The engine's, whose rule behind a request's last draft counts the drafts too."""

    min_toks: dict[int, tuple[int, Sequence[int], set[int], bool]]
    """The engine's: by request, the least tokens, the answer, the tokens that end it, whether a grammar holds."""
    drafted: Sequence[int] = ()
    """Drafts of each request, while a step with drafts is sampled."""

    def apply(self, logits: Tensor) -> Tensor:
        """Logits are [requests, vocabulary]: one row a request, behind its drafts."""
        if not self.drafted:
            return super().apply(logits)
        settled = self.min_toks
        self.min_toks = {
            row: (least - self.drafted[row], answer, ends, has_grammar)
            for row, (least, answer, ends, has_grammar) in settled.items()
        }
        try:
            return self.apply_with_spec_decode(logits, [1] * len(self.drafted))
        finally:
            self.min_toks = settled


class DraftRules(LogitsProcessors):  # type: ignore[misc]
    """The rules of one batch: the engine's own three and `no_repeat_ngram_size`."""

    def __init__(self, config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        """The engine's own signature for each of them."""
        words = config, device, is_pin_memory
        self.min_tokens, self.repeats = MinTokens(*words), OnHost(*words)
        self.bias, self.min_p = LogitBiasLogitsProcessor(*words), MinPLogitsProcessor(*words)
        super().__init__([self.min_tokens, self.bias, self.min_p, self.repeats])

    @property
    def are_asked(self) -> bool:
        """Whether a request of the batch has one."""
        return bool(self.bias.biases or self.min_p.min_p_count or self.repeats.is_asked or self.min_tokens.min_toks)

    @contextmanager
    def behind(self, step: SpecDecodeMetadata) -> Iterator[None]:
        """Count this step's drafts meanwhile."""
        self.min_tokens.drafted = step.num_draft_tokens
        self.repeats.drafts = by_request(step) if self.repeats.is_asked else ()
        try:
            yield
        finally:
            self.min_tokens.drafted = self.repeats.drafts = ()


class RuledSampler(RejectionSampler):  # type: ignore[misc]
    """Its methods replace the engine's own: the runner has made its sampler when it asks for rules.

    A batch in which nobody asks costs four looks at empty tables.
    """

    def forward(
        self,
        metadata: SpecDecodeMetadata,
        draft_probs: Tensor | None,
        logits: Tensor,
        sampling_metadata: SamplingMetadata,
    ) -> SamplerOutput:
        """The engine's own signature."""
        rules = asked(sampling_metadata)
        if rules is None:
            return OWN_FORWARD(self, metadata, draft_probs, logits, sampling_metadata)
        with rules.behind(metadata):
            return OWN_FORWARD(self, metadata, draft_probs, logits, sampling_metadata)

    def apply_logits_processors(
        self, logits: Tensor, sampling_metadata: SamplingMetadata, metadata: SpecDecodeMetadata
    ) -> Tensor:
        """Logits are [drafts, vocabulary]; changed in place. Penalties, masks and `min_tokens` are the engine's."""
        rules = asked(sampling_metadata)
        if rules is None:
            return OWN_RULES(self, logits, sampling_metadata, metadata)
        counts = torch.tensor(metadata.num_draft_tokens, device=logits.device)
        if rules.bias.biases:
            add_bias(logits, counts, rules.bias.logits_slice, rules.bias.bias_tensor)
        logits = OWN_RULES(self, logits, sampling_metadata, metadata)
        rules.repeats.apply_to_drafts(logits)
        if rules.min_p.min_p_count and sampling_metadata.temperature is not None:
            keep_likely(logits, counts, rules.min_p.min_p[:, 0], sampling_metadata.temperature)
        return logits


def asked(metadata: SamplingMetadata) -> DraftRules | None:
    """The batch's rules, where a request has one; the engine's own warm-up has none."""
    rules = metadata.logitsprocs
    return rules if isinstance(rules, DraftRules) and rules.are_asked else None


def by_request(step: SpecDecodeMetadata) -> list[list[int]]:
    """The drafts of each request."""
    tokens = iter(step.draft_token_ids.tolist())
    return [[next(tokens) for _ in range(count)] for count in step.num_draft_tokens]


def add_bias(logits: Tensor, counts: Tensor, where: tuple[Tensor, Tensor], biases: Tensor) -> None:
    """Add each bias of a (request, token) pair to all drafted places of the request; `counts` are its drafts."""
    requests, tokens = where
    starts, each = counts.cumsum(0) - counts, counts[requests]
    pairs = torch.arange(len(requests), device=logits.device).repeat_interleave(each)
    within = torch.arange(len(pairs), device=logits.device) - (each.cumsum(0) - each)[pairs]
    logits[starts[requests][pairs] + within, tokens[pairs]] += biases[pairs]


def keep_likely(logits: Tensor, counts: Tensor, least: Tensor, temperatures: Tensor) -> None:
    """`min_p` at each drafted place: a token below this share of the likeliest one goes.

    The shares are those after temperature, which the engine applies next: the same values as without speculation.
    """
    wanted = (least > 0) & (temperatures >= GREEDY_BELOW)
    rows = wanted.repeat_interleave(counts).nonzero()[:, 0]
    if not len(rows):
        return
    each = temperatures.repeat_interleave(counts)[rows, None], least.repeat_interleave(counts)[rows, None]
    asking = logits[rows]
    chances = (asking / each[0]).softmax(dim=-1)
    logits[rows] = asking.masked_fill_(chances < chances.amax(dim=-1, keepdim=True) * each[1], -torch.inf)


def install(device: torch.device) -> None:
    """Give every sampler of drafts in this process the methods of `RuledSampler`."""
    if device.type == "cpu":
        spread.install()
    RejectionSampler.forward = RuledSampler.forward
    RejectionSampler.apply_logits_processors = RuledSampler.apply_logits_processors
