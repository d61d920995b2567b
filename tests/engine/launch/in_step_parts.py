"""In the image: which requests are copied inside their step, and that vLLM copies all of their blocks. Prints JSON."""

import inspect
import json
from types import SimpleNamespace

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import OffloadingConnectorScheduler
from vllm.v1.kv_offload.base import OffloadPolicy
from vllm.v1.kv_offload.cpu.gpu_worker import CPUOffloadingWorker, SingleDirectionOffloadingHandler
from windlass.engine.prefix_offload import connector
from windlass.engine.prefix_offload.connector import PrefixOffloadConnector
from windlass.engine.prefix_offload.in_step import InStep

FOUND, BLOCK, CHUNK = 9_984, 16, 256


class FakeScheduler:
    """Finds 9,984 tokens for everybody, and keeps what it is asked to build."""

    def __init__(self):
        self.preempted, self._jobs = [], {}

    def get_num_new_matched_tokens(self, request, computed, max_num_new_tokens=None):
        return FOUND, True

    def update_state_after_alloc(self, request, blocks, tokens):
        pass

    def build_connector_meta(self, output):
        self.preempted.append(sorted(output.preempted_req_ids))
        return SimpleNamespace()

    def request_finished(self, request):
        return False, None


class FakeWorker:
    """Reports each copy as soon as it is asked."""

    def __init__(self):
        self.worker = SimpleNamespace(_load_handler=SimpleNamespace(_transfer_events={1: "end of 1", 2: "end of 2"}))

    def start_kv_transfers(self, meta):
        pass

    def get_finished(self, ended):
        return set(), {"a", "b"}


def bare_connector():
    """The connector's own code, without an engine."""
    found = PrefixOffloadConnector.__new__(PrefixOffloadConnector)
    found.__dict__ |= {"_bounding_group_ids": (), "_in_step": InStep(131_072, CHUNK), "_card_limit": -1, "_pool": None}
    found.__dict__ |= {
        "_copied_in_step": set(),
        "connector_scheduler": FakeScheduler(),
        "connector_worker": None,
        "_block_tokens": BLOCK,
    }
    return found


def built(one, *requests, preempted=()):
    output = SimpleNamespace(num_scheduled_tokens=dict.fromkeys(requests, 1), preempted_req_ids=set(preempted))
    return sorted(one.build_connector_meta(output).in_step)


def in_step():
    """Which requests are copied inside their step, and what the worker's side makes of it."""
    one, a, b = bare_connector(), *(SimpleNamespace(request_id=name, num_tokens=10_000) for name in "ab")
    found = {"alone": one.get_num_new_matched_tokens(a, 0)}
    one.update_state_after_alloc(a, SimpleNamespace(blocks=([],)), FOUND)
    found["step"] = built(one, "a")
    found["beside"] = one.get_num_new_matched_tokens(b, 0)
    one.request_finished_all_groups(a, ())
    found["alone again"] = one.get_num_new_matched_tokens(b, 0)
    one.update_state_after_alloc(b, SimpleNamespace(blocks=([],)), FOUND)
    built(one, "b", preempted=("b",))
    found["beside one that came back"] = one.get_num_new_matched_tokens(a, 0)
    one.request_finished_all_groups(b, ())
    one.connector_scheduler._jobs = {1: SimpleNamespace(req_id="a", is_store=False)}
    built(one, preempted=("a", "b"))
    found["preempted"] = one.connector_scheduler.preempted[-1]
    waits = []
    connector.current_platform = SimpleNamespace(current_stream=lambda: SimpleNamespace(wait_event=waits.append))
    connector.OffloadingConnector.start_load_kv = lambda *_: None
    connector.OffloadingConnector.get_finished = lambda self, ended: self.connector_worker.get_finished(ended)
    one.connector_worker = FakeWorker()
    jobs = {1: SimpleNamespace(req_id="a"), 2: SimpleNamespace(req_id="b")}
    one._connector_metadata = SimpleNamespace(in_step=frozenset("a"), load_jobs=jobs)
    one.start_load_kv(None)
    found["waits"] = waits
    found["reported"] = [sorted(one.get_finished(set())[1]) for _ in range(2)]
    return found


PRIVATE = {
    OffloadingConnectorScheduler: "self._jobs",
    CPUOffloadingWorker: "self._load_handler",
    SingleDirectionOffloadingHandler: "self._transfer_events",
}
"""Names of vLLM's that the connector reads."""


def copied(blocks, computed=0):
    """Blocks that vLLM's own scheduler copies of those that a copy inside the step is for, behind computed tokens."""
    real = OffloadingConnectorScheduler.__new__(OffloadingConnectorScheduler)
    group = SimpleNamespace(
        group_idx=0, tokens_per_block=BLOCK, tokens_per_chunk=CHUNK, sliding_window_size_in_chunks=None,
        kv_cache_spec=None,
    )  # fmt: skip
    real.config = SimpleNamespace(kv_group_configs=[group], blocks_per_chunk=CHUNK // BLOCK, num_workers=1)
    state = SimpleNamespace(offload_keys=list(range(FOUND // CHUNK)), next_stored_chunk_idx=0)
    request = SimpleNamespace(
        num_locally_computed_tokens=computed, partial_tail_boundary=None, load_key_ranges=[], group_states=[state],
        offloading_context=SimpleNamespace(policy=OffloadPolicy.CHUNK_LEVEL), req_context=None, transfer_jobs=set(),
    )  # fmt: skip
    real._req_status = {"a": request}
    real._current_batch_allocated_block_ids, real._current_batch_load_jobs, real._jobs = set(), {}, {}
    real._chunks_being_loaded, real._generate_job_id = None, lambda: 1
    real.manager = SimpleNamespace(prepare_load=lambda keys, context: keys)
    real.update_state_after_alloc(SimpleNamespace(request_id="a"), blocks, FOUND - computed)
    return len(real._current_batch_load_jobs[1].dst_spec.block_ids)


def main():
    marked = [
        SimpleNamespace(block_id=at + 1, is_null=False, block_hash=b"x" if at < FOUND // BLOCK else None)
        for at in range(FOUND // BLOCK + 1)
    ]
    blocks = SimpleNamespace(blocks=(marked,))
    found = in_step() | {"copied": {"marked": copied(blocks), "ours": copied(connector._unmarked(blocks, 0))}}
    found["copied"]["behind 256 tokens"] = copied(connector._unmarked(blocks, CHUNK // BLOCK), CHUNK)
    found["renamed"] = [name for cls, name in PRIVATE.items() if name not in inspect.getsource(cls.__init__)]
    print("RESULT " + json.dumps(found))


main()
