"""Runs inside the serving image: what the engine finds after our worker's module was imported, as a line of JSON."""

import json

from vllm.v1.attention.backends.registry import AttentionBackendEnum
from windlass.engine.sequence_parallel.worker import SequenceParallelRunner, SequenceParallelWorker
from windlass.launch.sequence_parallel import CUSTOM, WORKER

assert f"{SequenceParallelWorker.__module__}.{SequenceParallelWorker.__name__}" == WORKER
backend = AttentionBackendEnum[CUSTOM].get_class()
manager = SequenceParallelRunner.pcp_manager_cls.fget(None)
print(
    "RESULT " + json.dumps({"backend": backend.__name__, "splits": backend.supports_pcp(), "manager": manager.__name__})
)
