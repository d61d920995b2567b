"""In the image: our manager on vLLM's own chunks, and the connector's choices. Prints JSON."""

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

from vllm.v1.kv_offload.base import LookupResult, ReqContext
from vllm.v1.metrics.loggers import PerEngineStatLoggerAdapter
from vllm.v1.metrics.stats import PrefixCacheStats, SchedulerStats
from windlass.engine.prefix_offload import counts
from windlass.engine.prefix_offload.connector import PrefixOffloadConnector
from windlass.engine.prefix_offload.logger import HitLogger
from windlass.engine.prefix_offload.manager import SKIPPED, PrefixManager
from windlass.engine.prefix_offload.settings import COUNTS

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


def main():
    found = {}
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
