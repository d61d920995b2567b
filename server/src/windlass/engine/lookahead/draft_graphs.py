"""CUDA graphs for a draft model: the engine's own speculator launches its steps kernel by kernel.

A step of drafting is one pass that reads what was accepted, of 1 to most + 2 tokens a request, and then a pass of one
token a request for each further draft. Both are captured whole, by number of tokens. What a graph reads lies where it
lay at the capture: the engine's input buffers, and ours of the reading pass. A batch with a prompt in it, and a batch
of more tokens than were captured, run as the engine runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.worker.gpu.attn_utils import (
    build_attn_metadata,
    build_slot_mappings_by_layer,
    get_query_lens_mismatch_unsupported_backend,
    get_varlen_cudagraph_unsupported_backend,
)
from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor, CudaGraphManager
from vllm.v1.worker.gpu.input_batch import InputBatch
from vllm.v1.worker.gpu.spec_decode.standalone_ar.speculator import StandaloneARSpeculator, prepare_prefill_inputs

PAD = -1
"""A slot of the key-value cache that nothing is written to."""


class GraphedDraftModel(StandaloneARSpeculator):  # type: ignore[misc]  # the engine has no types here
    """The engine's speculator of a draft model, whose passes are replayed where they were captured."""

    _reading: CudaGraphManager | None = None
    _drafting: CudaGraphManager | None = None

    def init_cudagraph_manager(self, cudagraph_mode: CUDAGraphMode) -> None:
        """Choose what is captured: nothing where the engine decodes without whole graphs, or ranks share requests."""
        self._reading = self._drafting = None
        is_whole = cudagraph_mode.decode_mode() == CUDAGraphMode.FULL
        if not is_whole or self.dp_size > 1 or not self.supports_decode_metadata_update:
            return
        whole = CUDAGraphMode.FULL_DECODE_ONLY
        self._longest = self.num_speculative_steps + 2
        self._drafting = CudaGraphManager(self.vllm_config, self.device, whole, decode_query_len=1)
        groups = self.attn_groups
        refuses = get_query_lens_mismatch_unsupported_backend(groups)
        if not (refuses or get_varlen_cudagraph_unsupported_backend(groups, self.vllm_config, self._longest)):
            self._reading = CudaGraphManager(self.vllm_config, self.device, whole, self._longest, varlen_decode=True)

    def capture(self) -> None:
        """Record the passes, each for every number of tokens that the engine captures its own model with."""
        self.idx_mapping.zero_()
        self.last_token_indices.zero_()
        if self._reading:
            self._reading.capture(self._prepared(self._read, self.expanded_slot_mappings), "Capturing draft reading")
        if self._drafting and self.num_speculative_steps > 1:
            self._drafting.capture(self._prepared(self._draft, self.block_tables.slot_mappings), "Capturing drafts")

    def _prepared(self, work: Callable[..., None], slots: Tensor) -> Callable[..., Callable[[CUDAGraphMode], None]]:
        """Function that the engine's manager calls before it warms up and captures: `work` on a made batch."""

        def prepare(batch: BatchExecutionDescriptor, warmup: bool) -> Callable[[CUDAGraphMode], None]:
            rows, tokens = batch.num_reqs, batch.num_tokens
            longest = batch.max_query_len or 1
            InputBatch.make_dummy(rows, tokens, self.input_buffers, max_query_len=longest)
            self.block_tables.get_dummy_block_tables(rows)
            slots.fill_(PAD)
            self.expanded_positions[:tokens].zero_()
            self.current_draft_step.fill_(1)
            state = self._attention(rows, tokens, longest, slots, is_captured=True)
            return lambda _: work(rows, tokens, *state)

        return prepare

    def _attention(
        self, rows: int, tokens: int, longest: int, slots: Tensor, *, is_captured: bool = False
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Attention metadata and slots by layer of a padded batch, whose rows have `longest` tokens at most."""
        mine = slots[:, :tokens]
        metadata = build_attn_metadata(
            attn_groups=self.attn_groups,
            num_reqs=rows,
            num_tokens=tokens,
            query_start_loc_gpu=self.input_buffers.query_start_loc[: rows + 1],
            query_start_loc_cpu=self._evenly(rows, tokens),
            max_query_len=longest,
            seq_lens=self.input_buffers.seq_lens[:rows],
            max_seq_len=self.draft_max_seq_len,
            block_tables=[table[:rows] for table in self.block_tables.input_block_tables],
            slot_mappings=mine,
            kv_cache_config=self.kv_cache_config,
            is_prefilling=self.draft_is_prefilling[:rows],
            for_cudagraph_capture=is_captured,
        )
        return metadata, build_slot_mappings_by_layer(mine, self.kv_cache_config)

    @staticmethod
    def _evenly(rows: int, tokens: int) -> Tensor:
        """Begins of the rows as the host takes them to be; the device alone knows each row's length."""
        return (torch.arange(rows + 1, dtype=torch.int64) * tokens // rows).int()

    def _read(self, rows: int, tokens: int, metadata: dict[str, Any], slots: dict[str, Tensor]) -> None:
        """The reading pass, and the first draft of each row."""
        hidden = self._run_model(
            self.expanded_input_ids[:tokens], self.expanded_positions[:tokens], metadata, slots, None
        )
        last = self.last_token_indices[:rows]
        self.current_draft_step.zero_()
        self.draft_tokens[:rows, 0] = self._sampled(hidden[last], self.expanded_positions[last], rows)

    def _draft(self, rows: int, tokens: int, metadata: dict[str, Any], slots: dict[str, Tensor]) -> None:
        """The next draft of each row, with everything that the pass after it reads."""
        buffers = self.input_buffers
        positions, lengths = buffers.positions[:rows], buffers.seq_lens[:rows]
        self.block_tables.compute_slot_mappings(
            self.idx_mapping[:rows], buffers.query_start_loc[: rows + 1], positions, tokens
        )
        self._update_draft_decode_metadata(metadata, rows)
        hidden = self._run_model(buffers.input_ids[:tokens], buffers.positions[:tokens], metadata, slots, None)
        drafted = self._sampled(hidden[:rows], positions, rows)
        column = self.current_draft_step.expand(rows, 1)
        self.draft_tokens[:rows].scatter_(1, column, drafted.unsqueeze(1))
        buffers.input_ids[:rows].copy_(drafted)
        torch.clamp(positions + 1, max=self.max_model_len - 1, out=positions)
        torch.clamp(lengths + 1, max=self.max_model_len, out=lengths)
        self.current_draft_step.add_(1)

    def _sampled(self, hidden: Tensor, positions: Tensor, rows: int) -> Tensor:
        drafted: Tensor = self.sample_draft(
            hidden,
            positions,
            self.idx_mapping[:rows],
            self.temperature,
            self.seeds,
            self.current_draft_step,
            self.draft_logits,
        )
        return drafted

    def _prefill(
        self,
        input_batch: InputBatch,
        num_rejected: Tensor,
        last_sampled: Tensor,
        num_reqs: int,
        skip_attn: bool,
        num_tokens_across_dp: Tensor | None,
    ) -> None:
        """The engine's reading pass, replayed where no row reads a prompt."""
        batch = None if skip_attn else self._captured(self._reading, input_batch)
        if batch is None or self._reading is None:
            super()._prefill(input_batch, num_rejected, last_sampled, num_reqs, skip_attn, num_tokens_across_dp)
            return
        total = prepare_prefill_inputs(
            input_buffers=self.input_buffers,
            input_batch=input_batch,
            last_sampled=last_sampled,
            num_rejected=num_rejected,
            expanded_input_ids=self.expanded_input_ids,
            expanded_positions=self.expanded_positions,
            last_token_indices=self.last_token_indices,
            max_num_reqs=self.max_num_reqs,
            max_model_len=self.max_model_len,
        )
        self.block_tables.compute_slot_mappings(
            input_batch.idx_mapping,
            self.input_buffers.query_start_loc[: num_reqs + 1],
            self.expanded_positions[:total],
            total,
            out=self.expanded_slot_mappings,
        )
        self._attention(batch.num_reqs, batch.num_tokens, self._longest, self.expanded_slot_mappings)
        self._reading.run_fullgraph(batch)

    def _captured(self, graphs: CudaGraphManager | None, batch: InputBatch) -> BatchExecutionDescriptor | None:
        """The captured batch that has room for the reading pass of this one; None where there is none."""
        if graphs is None or int(batch.num_scheduled_tokens.max()) >= self._longest:
            return None
        found = graphs.dispatch(batch.num_reqs, batch.num_tokens + batch.num_reqs, None, 0, self._longest)
        return found if found.cg_mode == CUDAGraphMode.FULL else None

    def _multi_step_decode(
        self,
        input_batch: InputBatch,
        num_rejected: Tensor,
        num_reqs: int,
        skip_attn: bool,
        num_tokens_across_dp: Tensor | None,
    ) -> None:
        """The engine's further drafts, each a replayed pass."""
        batch = None
        if self._drafting and not skip_attn:
            batch = self._drafting.dispatch(num_reqs, num_reqs, 1, 0)
        if batch is None or self._drafting is None or batch.cg_mode != CUDAGraphMode.FULL:
            super()._multi_step_decode(input_batch, num_rejected, num_reqs, skip_attn, num_tokens_across_dp)
            return
        self._begin_drafts(input_batch, num_rejected, num_reqs)
        for _ in range(1, self.num_speculative_steps):
            self._drafting.run_fullgraph(batch)

    def _begin_drafts(self, batch: InputBatch, rejected: Tensor, rows: int) -> None:
        """Lay out the first pass of one token a row: its first draft stands two behind what the engine has read."""
        buffers, last = self.input_buffers, self.last_token_indices[:rows]
        buffers.input_ids[:rows].copy_(self.draft_tokens[:rows, 0])
        buffers.positions[:rows] = torch.clamp(self.expanded_positions[last] + 1, max=self.max_model_len - 1)
        lengths = batch.seq_lens[:rows] - rejected[:rows].int() + 2
        buffers.seq_lens.zero_()
        buffers.seq_lens[:rows] = torch.clamp(lengths, max=self.max_model_len)
        torch.clamp(self.arange_gpu, max=rows, out=buffers.query_start_loc)
        self.current_draft_step.fill_(1)
