"""Runs inside the serving image: a draft model's captured passes against the engine's own, on a simulated device.

Both have a model whose tokens follow from every token that it has read at each position. A graph is its pass, called
again with what lies in the buffers now. Requests are at drawn lengths, some drafts of each are refused, and the device
verifies other numbers of them than the host takes it to.
Usage: graph_exactly.py CASES     Prints drafts that differ as a line of JSON, and how many passes were replayed.
"""

import json
import random
import sys
from types import SimpleNamespace

import torch
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.worker.gpu.cudagraph_utils import BatchExecutionDescriptor
from vllm.v1.worker.gpu.input_batch import InputBuffers
from vllm.v1.worker.gpu.spec_decode import speculator as engines_base
from vllm.v1.worker.gpu.spec_decode.standalone_ar import speculator as engines
from windlass.engine.lookahead import draft_graphs
from windlass.engine.lookahead.draft_graphs import GraphedDraftModel

PLACES, MOST, CONTEXT, VOCABULARY = 8, 4, 256, 997
SIZES = (1, 2, 4, 8, 16, 24, 32, 48)
PROMPTS, LONG = 0.2, 12
"""Share of the steps in which a row reads a prompt, and its tokens but one."""
ROOM = PLACES * (MOST + 2) + LONG


class Graphs:
    """Stand-in of the engine's manager: a graph is the call that would be captured."""

    replayed = 0

    def __init__(self, _config, _device, _mode, decode_query_len, *, varlen_decode=False):
        self.longest, self.is_any = decode_query_len, varlen_decode
        self.graphs = {}

    def capture(self, prepare, _words):
        for size in SIZES:
            if size > PLACES * self.longest:
                continue
            rows = min(size, PLACES)
            bounds = {"max_query_len": self.longest} if self.is_any else {"uniform_token_count": 1}
            batch = BatchExecutionDescriptor(CUDAGraphMode.FULL, size, rows, **bounds)
            prepare(batch, warmup=True)(CUDAGraphMode.NONE)
            self.graphs[size] = batch, prepare(batch, warmup=False)

    def dispatch(self, rows, tokens, _uniform, _adapters, max_query_len=None):
        assert max_query_len == (self.longest if self.is_any else None)
        fits = (batch for size, (batch, _) in self.graphs.items() if size >= tokens and batch.num_reqs >= rows)
        return next(fits, BatchExecutionDescriptor(CUDAGraphMode.NONE, tokens, rows))

    def run_fullgraph(self, batch):
        Graphs.replayed += 1
        self.graphs[batch.num_tokens][1](CUDAGraphMode.NONE)


class Blocks:
    """Slots of the key-value cache: a row for each request, a slot for each position."""

    num_kv_cache_groups = 1
    cp_size = 1

    def __init__(self):
        self.input_block_tables = [torch.zeros((PLACES, 1), dtype=torch.int32)]
        self.slot_mappings = torch.full((1, ROOM), -1, dtype=torch.int64)

    def get_dummy_block_tables(self, rows):
        return [table[:rows] for table in self.input_block_tables]

    def compute_slot_mappings(self, places, begins, positions, tokens, out=None):
        slots = self.slot_mappings if out is None else out
        slots.fill_(-1)
        for row, place in enumerate(places.tolist()):
            span = slice(int(begins[row]), int(begins[row + 1]))
            if place >= 0:
                slots[0, span] = place * CONTEXT + positions[span]
        return slots[:, :tokens]


def expanded(input_buffers, input_batch, last_sampled, num_rejected, max_num_reqs, max_model_len, **own):
    """Lay out each row's accepted tokens, the one after them, and refused ones, as the engine's kernel does."""
    ids, positions, last = own["expanded_input_ids"], own["expanded_positions"], own["last_token_indices"]
    begins = input_batch.query_start_loc.tolist()
    last.zero_()
    input_buffers.seq_lens.zero_()
    for row in range(input_batch.num_reqs):
        begin, end = begins[row], begins[row + 1]
        valid, at = end - begin - int(num_rejected[row]), begin + row
        total = end - begin + 1
        ids[at : at + total] = 0
        ids[at : at + valid] = input_batch.input_ids[begin : begin + valid]
        ids[at + valid] = last_sampled[input_batch.idx_mapping[row]]
        first = int(input_batch.positions[begin])
        positions[at : at + total] = (first + torch.arange(total)).clamp(max=max_model_len - 1)
        last[row] = at + valid
        input_buffers.query_start_loc[row] = at
        input_buffers.seq_lens[row] = min(int(input_batch.seq_lens[row]) + 1, max_model_len)
    input_buffers.query_start_loc[input_batch.num_reqs :] = begins[input_batch.num_reqs] + input_batch.num_reqs
    assert max_num_reqs == PLACES
    return begins[input_batch.num_reqs] + input_batch.num_reqs


class Model:
    """Model whose token at a position follows from all that it has read up to there."""

    def __init__(self):
        self.read = torch.zeros(PLACES * CONTEXT, dtype=torch.int64)

    def __call__(self, ids, positions, metadata, slots):
        hidden = torch.zeros(len(ids), dtype=torch.int64)
        if metadata is None:
            return hidden
        begins, lengths = metadata.begins.tolist(), metadata.lengths.tolist()
        where = slots[0]
        real = where[: len(ids)] >= 0
        self.read[where[: len(ids)][real]] = ids[real].long()
        for row in range(len(begins) - 1):
            for at in range(begins[row], begins[row + 1]):
                if where[at] >= 0:
                    place, position = divmod(int(where[at]), CONTEXT)
                    assert position == int(positions[at])
                    assert position < lengths[row], "attention would not reach the token itself"
                    text = self.read[place * CONTEXT : place * CONTEXT + position + 1]
                    hidden[at] = int((text * (torch.arange(position + 1) * 31 + 7)).sum()) % VOCABULARY
        return hidden


class Simulated:
    """Parts of the engine that both speculators have: buffers, blocks, a model, and greedy drafts."""

    def prepare(self):
        device = torch.device("cpu")
        self.vllm_config, self.device, self.dp_size = None, device, 1
        self.max_num_reqs, self.max_num_tokens, self.max_model_len = PLACES, ROOM, CONTEXT
        self.num_speculative_steps, self.draft_max_seq_len, self.dcp_size = MOST, CONTEXT, 1
        self.input_buffers, self.block_tables = InputBuffers(PLACES, ROOM, device), Blocks()
        self.idx_mapping = torch.zeros(PLACES, dtype=torch.int64)
        self.temperature, self.seeds = torch.zeros(PLACES), torch.zeros(PLACES, dtype=torch.int64)
        self.draft_tokens = torch.zeros((PLACES, MOST), dtype=torch.int64)
        self.arange_np, self.draft_logits = torch.arange(PLACES + 1).int().numpy(), None
        self.draft_is_prefilling = torch.zeros(PLACES, dtype=torch.bool)
        self.last_token_indices = torch.zeros(PLACES, dtype=torch.int64)
        self.arange_gpu = torch.arange(PLACES + 1, dtype=torch.int32)
        self.current_draft_step = torch.tensor(0, dtype=torch.int64)
        self.expanded_input_ids = torch.zeros(ROOM + PLACES, dtype=torch.int32)
        self.expanded_positions = torch.zeros(ROOM + PLACES, dtype=torch.int64)
        self.expanded_slot_mappings = torch.full((1, ROOM + PLACES), -1, dtype=torch.int64)
        self.attn_groups, self.kv_cache_config = [], SimpleNamespace()
        self.supports_decode_metadata_update = True
        self.model = Model()
        return self

    def _run_model(self, ids, positions, metadata, slots, _):
        return self.model(ids, positions, metadata, slots)

    def sample_draft(self, hidden, *_):
        return hidden


class Engines(Simulated, engines.StandaloneARSpeculator):
    """Passes of the engine."""


class Ours(Simulated, GraphedDraftModel):
    """Passes that are captured."""


def metadata(query_start_loc_gpu, seq_lens, **_):
    """Stand-in of attention metadata: where rows begin on the device, and how far they reach."""
    return SimpleNamespace(begins=query_start_loc_gpu, lengths=seq_lens)


def batch(chance, texts):
    """A step of some requests: tokens on the device, whose rows are as long as the device has them."""
    places = chance.sample(range(PLACES), chance.randint(1, PLACES))
    drafts = [chance.randint(0, MOST) for _ in places]
    refused = [chance.randint(0, count) for count in drafts]
    if chance.random() < PROMPTS:  # more tokens than a graph has room for, none refused
        drafts[0], refused[0] = LONG, 0
    lengths = [1 + count for count in drafts]
    begins = torch.tensor([0, *lengths]).cumsum(0).int()
    total = int(begins[-1])
    ids = [token for place, count in zip(places, drafts, strict=True) for token in step(texts[place], count, chance)]
    starts = [len(texts[place]) - 1 for place in places]
    positions = torch.cat([start + torch.arange(length) for start, length in zip(starts, lengths, strict=True)])
    each, more = divmod(total, len(places))
    on_host = [each + (row < more) for row in range(len(places))]
    return SimpleNamespace(
        num_reqs=len(places),
        num_tokens=total,
        idx_mapping=torch.tensor(places),
        input_ids=torch.tensor(ids).int(),
        positions=positions,
        query_start_loc=begins,
        query_start_loc_np=begins.numpy(),
        seq_lens=torch.tensor([start + length for start, length in zip(starts, lengths, strict=True)]).int(),
        seq_lens_cpu_upper_bound=torch.full((len(places),), CONTEXT),
        num_scheduled_tokens=torch.tensor(lengths if LONG in drafts else on_host).numpy(),
        places=places,
        refused=refused,
        drafts=drafts,
    )


def step(text, count, chance):
    """The last token of a text, and what was drafted after it."""
    return [text[-1], *(chance.randrange(VOCABULARY) for _ in range(count))]


def read_first(speculators, texts):
    """Each request's text but its last token, as a prompt was read."""
    for one in speculators:
        for place, text in enumerate(texts):
            one.model.read[place * CONTEXT : place * CONTEXT + len(text) - 1] = torch.tensor(text[:-1])


def case(number, speculators):
    """Steps of some requests; the drafts of the first step in which they differ."""
    chance = random.Random(number)  # noqa: S311 - draws cases, no secret
    texts = [[chance.randrange(VOCABULARY) for _ in range(chance.randint(2, CONTEXT - 40))] for _ in range(PLACES)]
    read_first(speculators, texts)
    for _ in range(4):
        now = batch(chance, texts)
        sampled = torch.tensor([chance.randrange(VOCABULARY) for _ in range(PLACES)])
        rejected = torch.tensor(now.refused)
        words = (
            now,
            {},
            {},
            None,
            None,
            None,
            rejected,
            sampled,
            None,
            torch.zeros(PLACES),
            torch.zeros(PLACES).long(),
        )
        most = chance.randint(1, MOST)  # the policy asks for fewer at times
        for one in speculators:
            one.num_speculative_steps = most
        drafted = [[row[:most] for row in one.propose(*words).tolist()] for one in speculators]
        if drafted[0] != drafted[1]:
            return {"engine's": drafted[0], "ours": drafted[1], "drafts": now.drafts, "refused": now.refused}
        for row, place in enumerate(now.places):
            begin = int(now.query_start_loc[row])
            kept = now.drafts[row] - now.refused[row]
            texts[place] += [*now.input_ids[begin + 1 : begin + 1 + kept].tolist(), int(sampled[place])]
    return None


def main():
    """All cases."""
    for module in (engines_base, draft_graphs):
        module.build_attn_metadata = metadata
    for module in (engines, draft_graphs):
        module.build_slot_mappings_by_layer = lambda slots, _: slots
        module.prepare_prefill_inputs = expanded
    draft_graphs.CudaGraphManager = Graphs
    ours = Ours.__new__(Ours).prepare()
    ours.init_cudagraph_manager(CUDAGraphMode.FULL_AND_PIECEWISE)
    ours.capture()
    speculators = Engines.__new__(Engines).prepare(), ours
    found = [case(number, speculators) for number in range(int(sys.argv[1]))]
    wrong = [one for one in found if one]
    print("RESULT " + json.dumps({"wrong": wrong[:3], "replayed": Graphs.replayed}))


if __name__ == "__main__":
    main()
