"""In the image: our manager on vLLM's own chunks, and the connector's choices. Prints JSON."""

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

from vllm.v1.kv_offload.base import LookupResult, ReqContext
from vllm.v1.metrics.loggers import PerEngineStatLoggerAdapter
from vllm.v1.metrics.stats import PrefixCacheStats, SchedulerStats
from windlass.prefix_offload import connector, counts
from windlass.prefix_offload.connector import PrefixOffloadConnector
from windlass.prefix_offload.in_step import InStep
from windlass.prefix_offload.logger import HitLogger
from windlass.prefix_offload.manager import SKIPPED, PrefixManager
from windlass.prefix_offload.settings import COUNTS

CHUNKS = 4


def keys(first, count):
    return [number.to_bytes(32, "big") + (0).to_bytes(4, "big") for number in range(first, first + count)]


def store(manager, name, chunks):
    """Keep chunks of one request; those that vLLM was asked to copy."""
    context = ReqContext(req_id=name)
    manager.on_new_request(context)
    found = manager.prepare_store(chunks, context)
    manager.complete_store(found.keys_to_store, context)
    manager.on_request_finished(context)
    return len(found.keys_to_store)


def load(manager, name, chunks):
    """Bring chunks of one request back; how many were there."""
    context = ReqContext(req_id=name)
    manager.on_new_request(context)
    there = [key for key in chunks if manager.lookup(key, context) is LookupResult.HIT]
    if there:
        manager.prepare_load(there, context)
        manager.complete_load(there, context)
    manager.on_request_finished(context)
    return len(there)


def manager(threshold=1):
    return PrefixManager(CHUNKS, cache_policy="arc", store_threshold=threshold)


def counted(folder):
    """What two engines' steps leave for the supervisor, by vLLM's own way to its loggers."""
    transfer = SimpleNamespace(kv_connector_extra_config={COUNTS: folder})
    config = SimpleNamespace(kv_transfer_config=transfer, cache_config=SimpleNamespace(block_size=16))
    loggers = PerEngineStatLoggerAdapter(config, [0, 1], HitLogger)
    for engine, (card, host) in enumerate(((32, 64), (16, 0))):
        stats = SchedulerStats()
        stats.prefix_cache_stats = PrefixCacheStats(queries=160, hits=card)
        stats.connector_prefix_cache_stats = PrefixCacheStats(queries=160 - card, hits=host)
        loggers.record(stats, None, engine_idx=engine)
    before = counts.read(Path(folder))
    loggers.log()
    return [before, counts.read(Path(folder))]


class FakeScheduler:
    """Finds 9,984 tokens for everybody, and keeps what it is asked to build."""

    def __init__(self):
        self.preempted, self._jobs = [], {}

    def get_num_new_matched_tokens(self, request, computed, max_num_new_tokens=None):
        return 9_984, True

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
    found.__dict__ |= {"_bounding_group_ids": (), "_in_step": InStep(131_072, 256), "_card_limit": -1, "_pool": None}
    found.__dict__ |= {"_copied_in_step": set(), "connector_scheduler": FakeScheduler(), "connector_worker": None}
    return found


def built(one, *requests, preempted=()):
    output = SimpleNamespace(num_scheduled_tokens=dict.fromkeys(requests, 1), preempted_req_ids=set(preempted))
    return sorted(one.build_connector_meta(output).in_step)


def in_step():
    """Which requests are copied inside their step, and what the worker's side makes of it."""
    one, a, b = bare_connector(), *(SimpleNamespace(request_id=name, num_tokens=10_000) for name in "ab")
    found = {"alone": one.get_num_new_matched_tokens(a, 0)}
    one.update_state_after_alloc(a, None, 9_984)
    found["step"] = built(one, "a")
    found["beside"] = one.get_num_new_matched_tokens(b, 0)
    one.request_finished_all_groups(a, ())
    found["alone again"] = one.get_num_new_matched_tokens(b, 0)
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


def main():
    found = {"in step": in_step()}
    with tempfile.TemporaryDirectory() as folder:
        found["counted"] = counted(folder)
    kept = manager()
    found["kept"] = [store(kept, f"r{at}", keys(at * 2, 2)) for at in range(3)]
    found["came back"] = load(kept, "again", keys(4, 2))
    found["closed"] = [store(kept, f"m{at}", keys(100 + at * 2, 2)) for at in range(4)]
    found["skipped"] = sum(kept.get_stats()._values[SKIPPED].values())
    load(kept, "missed", keys(106, 1))
    found["open again"] = store(kept, "reopened", keys(200, 2))
    kept.reset_cache()
    found["after a reset"] = load(kept, "none", keys(200, 2))
    twice = manager(threshold=2)
    found["second time"] = [store(twice, f"t{at}", keys(0, 2)) for at in range(2)]
    found["layout"] = PrefixOffloadConnector.get_required_kvcache_layout(SimpleNamespace())
    print("RESULT " + json.dumps(found))


main()
