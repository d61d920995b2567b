"""Runs inside the serving image: prompts split over ranks, against one rank and float64, by processes over gloo.

Usage: split_exactly.py RANKS DRAWS [alone]     Prints the first differences as a line of JSON. `alone` leaves the
exchange out, so that the comparison must fail.

Each process is a rank: the manager and the exchange are ours, the partition is the engine's, and its GPU kernels are
stand-ins that do what their parameters say. Random requests come, are cut over steps, decode and share prefixes. After
each step every rank must have each token's attention as one rank has it, and all caches must hold the same.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import vllm.v1.worker.gpu.pcp_manager as engines
import windlass.engine.sequence_parallel.manager as ours
from vllm.config import CUDAGraphMode
from vllm.v1.worker.gpu.input_batch import InputBatch, InputBuffers
from windlass.engine.sequence_parallel.exchange import all_ranks

BLOCK, BLOCKS, STEP, REQUESTS = 16, 400, 1024, 8
HEADS, KV_HEADS, SIZE, TOKENS = 4, 2, 8, 50
PAD, TOLERANCE = -1, 1e-12
EDGES = (1, 2, 15, 16, 17, 127, 255, 256, 257, 511, 513, 767, 1023, 1024, 1025, 1500)
"""Around a block, the least length that is split, and a step."""


ALONE = sys.argv[3:] == ["alone"]


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's own in the place of everybody's."""
    return torch.cat([tensor] * dist.get_world_size())


class Group:
    """What the engine's group of ranks is asked for, over gloo."""

    def __init__(self) -> None:
        self.gathers = 0

    def all_gather(self, tensor: torch.Tensor, dim: int = 0) -> torch.Tensor:
        self.gathers += 1
        found = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim)

    def broadcast(self, tensor: torch.Tensor, src: int) -> torch.Tensor:
        dist.broadcast(tensor, src)
        return tensor


class Tables:
    """The engine's block tables, whose kernels run on GPUs alone."""

    num_kv_cache_groups = 1

    def __init__(self) -> None:
        self.blocks = torch.zeros((REQUESTS, BLOCKS), dtype=torch.int32)
        self.input_block_tables = [torch.zeros((REQUESTS, BLOCKS), dtype=torch.int32)]

    def gather_block_tables(self, rows: torch.Tensor, padded: int, out: Any = None, out_ptrs: Any = None) -> Any:
        out[0][:padded] = 0
        out[0][: len(rows)] = self.blocks[rows]
        return (out[0][:padded],)

    def compute_slot_mappings(
        self, rows: torch.Tensor, starts: torch.Tensor, positions: torch.Tensor, padded: int, out: Any = None
    ) -> torch.Tensor:
        out.fill_(PAD)
        for row, first, last in zip(rows, starts, starts[1:], strict=False):
            at = positions[first:last]
            out[0, first:last] = self.blocks[row, at // BLOCK].long() * BLOCK + at % BLOCK
        return out[:, :padded]


@dataclass
class Request:
    """One that runs: its tokens so far, the length of its prompt, and how many are computed."""

    place: int
    tokens: list[int]
    prompt: int
    computed: int = 0
    blocks: list[int] = field(default_factory=list)


@dataclass
class Weights:
    """Queries, keys and values of a token at a place: tables in float64, the same on every rank."""

    by_token: torch.Tensor
    by_place: torch.Tensor

    @classmethod
    def drawn(cls) -> Weights:
        chance = torch.Generator().manual_seed(3)
        shape = (3, HEADS, SIZE)
        return cls(
            torch.randn((TOKENS, *shape), generator=chance, dtype=torch.float64),
            torch.randn((BLOCKS * BLOCK, *shape), generator=chance, dtype=torch.float64),
        )

    def of(self, tokens: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        query, key, value = (self.by_token[tokens.long()] + self.by_place[places.long()]).unbind(1)
        return query, key[:, :KV_HEADS].contiguous(), value[:, :KV_HEADS].contiguous()


def attention(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Causal, aligned with the end of the context, as FlashAttention has it."""
    keys, values = (part.repeat_interleave(HEADS // KV_HEADS, 1) for part in (keys, values))
    scores = torch.einsum("qhd,khd->hqk", query, keys) / SIZE**0.5
    rows, context = scores.shape[1:]
    hidden = torch.arange(context)[None, :] > torch.arange(context - rows, context)[:, None]
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), values)


class Rank:
    """One rank: the engine's steps with one layer of attention."""

    def __init__(self, number: int, ranks: int, weights: Weights) -> None:
        self.tables, self.weights, self.ranks = Tables(), weights, ranks
        self.manager = ours.SequenceParallelManager(
            pcp_world_size=ranks, pcp_rank=number, device=torch.device("cpu"), shard_decode_requests=True,
            max_num_reqs=REQUESTS, max_num_tokens=STEP, block_tables=self.tables,
        )  # fmt: skip
        self.buffers = InputBuffers(REQUESTS, STEP, torch.device("cpu"))
        self.cache = torch.zeros((2, BLOCKS * BLOCK, KV_HEADS, SIZE), dtype=torch.float64)

    def step(self, scheduled: list[tuple[Request, int]], padding: int) -> torch.Tensor:
        """The attention of every token of the step, in the scheduler's order."""
        batch = self.batch(scheduled)
        rows, prefills = batch.num_scheduled_tokens, batch.is_prefilling_np
        most = self.manager.get_num_tokens_for_dispatch(rows, prefills)
        mode = CUDAGraphMode.PIECEWISE if padding else CUDAGraphMode.NONE
        padded = min(most + padding, STEP)
        batch.num_tokens_after_padding = max(batch.num_tokens, padded)
        batch.input_ids = self.buffers.input_ids[: batch.num_tokens_after_padding]
        batch.positions = self.buffers.positions[: batch.num_tokens_after_padding]
        batch.is_padding = self.buffers.is_padding[: batch.num_tokens_after_padding]
        local = self.manager.partition_batch(batch, SimpleNamespace(cg_mode=mode, num_tokens=padded, num_reqs=None))
        tables, slots = self.manager.prepare_attn(local)
        output = self.layer(local, tables[0], slots[0])
        restored, _, whole = self.manager.restore_for_sampling(output, None)
        assert whole is batch
        return restored[: batch.num_tokens].view(-1, HEADS, SIZE)

    def layer(self, local: Any, table: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        """Write the cache as our attention does, then attend as FlashAttention's parameters say."""
        query, key, value = self.weights.of(local.input_ids, local.positions)
        if slots.shape[0] > key.shape[0]:
            gather = _alone if ALONE else ours.get_pcp_group().all_gather
            key, value = all_ranks(key, value, gather)
        written = slots >= 0
        for cache, new in zip(self.cache, (key, value), strict=True):
            cache[slots[written]] = new[: len(slots)][written]
        output = torch.zeros((local.num_tokens_after_padding, HEADS * SIZE), dtype=torch.float64)
        for row in range(local.num_reqs):
            first, last = local.query_start_loc[row], local.query_start_loc[row + 1]
            at = torch.arange(int(local.seq_lens[row]))
            places = table[row, at // BLOCK].long() * BLOCK + at % BLOCK
            output[first:last] = attention(query[first:last], *self.cache[:, places]).flatten(1)
        return output

    def batch(self, scheduled: list[tuple[Request, int]]) -> InputBatch:
        """As the engine's runner makes it."""
        places = np.array([request.place for request, _ in scheduled], np.intp)
        rows = np.array([count for _, count in scheduled], np.int32)
        computed = np.array([request.computed for request, _ in scheduled], np.int32)
        prompts = np.array([request.prompt for request, _ in scheduled], np.int32)
        starts = np.concatenate(([0], rows.cumsum())).astype(np.int32)
        for request, _ in scheduled:
            self.tables.blocks[request.place, : len(request.blocks)] = torch.tensor(request.blocks, dtype=torch.int32)
        tokens = [request.tokens[request.computed : request.computed + count] for request, count in scheduled]
        self.buffers.input_ids[: starts[-1]] = torch.tensor([token for some in tokens for token in some])
        self.buffers.positions[: starts[-1]] = torch.cat(
            [torch.arange(request.computed, request.computed + count) for request, count in scheduled]
        )
        count, indices = len(scheduled), torch.from_numpy(places).long()
        return InputBatch(
            req_ids=[str(place) for place in places], num_reqs=count, num_reqs_after_padding=count,
            idx_mapping=indices, idx_mapping_np=places, expanded_idx_mapping=indices,
            expanded_local_pos=torch.zeros(count, dtype=torch.int32), num_scheduled_tokens=rows,
            num_tokens=int(starts[-1]), num_tokens_after_padding=int(starts[-1]), num_draft_tokens=0,
            num_draft_tokens_per_req=None, query_start_loc=torch.from_numpy(starts), query_start_loc_np=starts,
            seq_lens=torch.from_numpy(computed + rows), seq_lens_cpu_upper_bound=torch.from_numpy(computed + rows),
            dcp_local_seq_lens=None, num_computed_tokens_np=computed, prefill_len_np=prompts,
            num_computed_prefill_tokens_np=np.minimum(computed, prompts), is_prefilling_np=computed < prompts,
            has_prefill=bool((computed < prompts).any()), decode_graph_eligible=not (computed < prompts).any(),
            input_ids=self.buffers.input_ids, positions=self.buffers.positions, is_padding=self.buffers.is_padding,
            logits_indices=torch.from_numpy(starts[1:] - 1), cu_num_logits=torch.arange(count + 1, dtype=torch.int32),
            cu_num_logits_np=np.arange(count + 1, dtype=np.int32), has_structured_output_reqs=False, prompt_lens=None,
        )  # fmt: skip


def arrivals(chance: random.Random) -> list[Request]:
    """Requests that begin together; some with the first blocks of another, whose keys and values are cached."""
    found, free = [], 1
    for place in range(chance.randrange(1, REQUESTS + 1)):
        length = chance.choice(EDGES) if chance.random() < 0.6 else chance.randrange(1, 900)
        request = Request(place, [chance.randrange(TOKENS) for _ in range(length)], length)
        needed = (length + 4 + BLOCK - 1) // BLOCK
        if free + needed > BLOCKS:
            break
        request.blocks, free = [*range(free, free + needed)], free + needed
        found.append(request)
    return found


def hit(request: Request, first: Request) -> None:
    """Let a request that waits reuse the whole blocks of another's prompt."""
    blocks = min(first.prompt, request.prompt - 1) // BLOCK
    if blocks and not request.computed:
        request.tokens[: blocks * BLOCK] = first.tokens[: blocks * BLOCK]
        request.blocks[:blocks] = first.blocks[:blocks]
        request.computed = blocks * BLOCK


def schedule(running: list[Request], chance: random.Random) -> list[tuple[Request, int]]:
    """Tokens of a step: those that decode first, then as much of the prompts as there is room for."""
    room = chance.choice((STEP, STEP, 300, 700))
    found = []
    for request in sorted(running, key=lambda one: one.computed < one.prompt):
        left = len(request.tokens) - request.computed
        if count := min(left, room):
            found.append((request, count))
            room -= count
    return found


def run(rank: Rank, chance: random.Random) -> dict[str, Any] | None:
    """Requests from their first step to their last; what differs first."""
    waiting = arrivals(chance)
    running = [waiting.pop(0)]
    while running:
        scheduled = schedule(running, chance)
        found = rank.step(scheduled, chance.choice((0, 0, 3)))
        if wrong := differs(rank, scheduled, found):
            return wrong
        for request, count in scheduled:
            request.computed += count
            if request.computed >= request.prompt and len(request.tokens) < request.prompt + 3:
                request.tokens.append(chance.randrange(TOKENS))
        if waiting and chance.random() < 0.7:
            running.append(waiting.pop(0))
            if running[0].computed >= running[0].prompt and chance.random() < 0.5:
                hit(running[-1], running[0])
        running = [one for one in running if one.computed < len(one.tokens)]
    return None


def differs(rank: Rank, scheduled: list[tuple[Request, int]], found: torch.Tensor) -> dict[str, Any] | None:
    """The first token whose attention is another than one rank's, or a cache that is not the first rank's."""
    first = 0
    for request, count in scheduled:
        places = torch.arange(request.computed + count)
        query, key, value = rank.weights.of(torch.tensor(request.tokens)[places], places)
        far = (found[first : first + count] - attention(query[-count:], key, value)).abs().amax((1, 2))
        if far.max() > TOLERANCE:
            lengths = [(one.prompt, one.computed, rows) for one, rows in scheduled]
            return {"at": int(far.argmax()), "far": float(far.max()), "step": lengths}
        first += count
    mine, theirs = rank.cache.clone(), rank.cache.clone()
    dist.broadcast(theirs, 0)
    return None if torch.equal(mine, theirs) else {"cache": float((mine - theirs).abs().max())}


def main(number: int, ranks: int, draws: int, store: str, answers: Any) -> None:
    """One process."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=ranks)
    group = Group()
    engines.get_pcp_group = ours.get_pcp_group = lambda: group
    weights, wrong, rows = Weights.drawn(), [], 0
    for draw in range(draws):
        rank = Rank(number, ranks, weights)
        if found := run(rank, random.Random(draw)):  # noqa: S311 - no secret
            wrong.append({"draw": draw, "rank": number, **found})
            break
        rows += group.gathers
    answers.put((number, wrong, rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    ranks, draws = int(sys.argv[1]), int(sys.argv[2])
    answers: Any = multiprocessing.get_context("fork").Queue()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            multiprocessing.get_context("fork").Process(target=main, args=(n, ranks, draws, f"{folder}/store", answers))
            for n in range(ranks)
        ]
        for process in processes:
            process.start()
        found = [answers.get(timeout=240) for _ in processes]
        for process in processes:
            process.join()
    print("RESULT " + json.dumps({"wrong": [one for _, some, _ in found for one in some], "gathers": found[0][2]}))
