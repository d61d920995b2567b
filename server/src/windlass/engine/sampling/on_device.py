"""`no_repeat_ngram_size` for the engine's runner with every sequence on the device (most GPUs).

Here the tokens of a step are never on the host in time, so the runs are not kept but looked for: one comparison of a
row with itself, for the rows that ask. Draft tokens of a speculating engine count as part of their row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor

from windlass.engine.sampling.banning import ban
from windlass.engine.sampling.ngrams import size_of

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext, LogitsProcRequestState


class OnDevice(LogitsProcessor):  # type: ignore[misc]  # the engine has no types here
    """One for all requests; a step in which nobody asks costs one look at an array on the host."""

    def __init__(self, vllm_config: VllmConfig, req_states: LogitsProcRequestState) -> None:
        """The engine's own signature; `req_states` is read as it changes."""
        self._states = req_states
        self._sizes = torch.zeros(req_states.max_num_reqs, dtype=torch.int32)
        self._device_sizes = self._sizes.to(req_states.device, copy=True)
        self._has_news = False

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Take the request's size; whether it has one."""
        size = size_of(sampling_params)
        self._has_news |= bool(self._sizes[req_idx] != size)
        self._sizes[req_idx] = size
        return size > 0

    def apply_staged_writes(self) -> None:
        """Bring new sizes to the device."""
        if self._has_news:
            self._device_sizes.copy_(self._sizes)
            self._has_news = False

    def apply(self, logits: Tensor, ctx: LogitsContext) -> Tensor:
        """Logits are [rows, vocabulary]; changed in place."""
        sizes = self._sizes[torch.from_numpy(ctx.idx_mapping_np).long()]
        # Padded to the size of a CUDA graph, where the mapping is not.
        lengths_at_most = torch.from_numpy(ctx.seq_lens_upper_bound_np)[: len(sizes)]
        for size in sizes[sizes > 0].unique().tolist():
            longest = int(lengths_at_most[sizes == size].max())
            rows = (self._device_sizes[ctx.expanded_idx_mapping] == size).nonzero()[:, 0]
            tokens, lengths = self._sequences(ctx, rows, longest)
            which, banned = repeats(tokens, lengths, size)
            known = banned < logits.shape[-1]  # a prompt may hold tokens past the vocabulary, as an image's
            ban(logits, rows[which[known]], banned[known])
        return logits

    def _sequences(self, ctx: LogitsContext, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Tokens [rows, longest] and lengths [rows]: what is settled, then the drafts before each row."""
        slots, drafts = ctx.expanded_idx_mapping[rows], ctx.expanded_local_pos[rows]
        settled = self._states.total_len.gpu[slots].clamp(max=longest)
        tokens = self._states.all_token_ids.gpu[slots, :longest].long()
        for number in range(1, int(drafts.max()) + 1 if len(drafts) else 0):
            has = ((drafts >= number) & (settled + number <= longest)).nonzero()[:, 0]
            # The first input of a request's rows is its last settled token, its drafts follow.
            tokens[has, settled[has] - 1 + number] = ctx.input_ids[(rows - drafts + number)[has]].long()
        return tokens, (settled + drafts).clamp(max=longest)


def repeats(tokens: Tensor, lengths: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Row numbers and tokens that would repeat a run of `size`; tokens are [rows, longest], lengths [rows]."""
    context, windows = size - 1, tokens.shape[1] - size + 1
    if windows < 1:
        return tokens.new_empty(0), tokens.new_empty(0)
    starts = torch.arange(windows, device=tokens.device)
    same = starts[None, :] + size <= lengths[:, None]
    for offset in range(context):
        last = tokens.gather(1, (lengths[:, None] - context + offset).clamp(min=0).long())
        same &= tokens[:, offset : offset + windows] == last
    rows, found = same.nonzero(as_tuple=True)
    return rows, tokens[rows, found + context]
