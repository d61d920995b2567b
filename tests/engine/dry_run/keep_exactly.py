"""Runs inside the serving image: our worker's dry run on a simulated card, whose memory is a number.

The runner, the engine's profile and its warm-up are simulated; on a GPU the same worker starts an engine.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from windlass.engine.dry_run import worker

GIB = 2**30
AVAILABLE, PROFILED, CONSUMED, GRAPHS = 40 * GIB, 2 * GIB, 20 * GIB, GIB
TOTAL = 80 * GIB
BLOCK = GIB // 1024
VOCABULARY, LOGIT_BYTES = 2**17, 2
EACH = 3
"""Blocks of a request."""


class Card:
    """What is held of it, and the steps taken."""

    def __init__(self, room: int = AVAILABLE) -> None:
        self.room, self.steps = room, list[str]()
        self.blocks = 0
        self.takes = {"forward": 3 * GIB, "warm-up": 5 * GIB}
        self.fails = ""

    def peak(self, work: Any) -> int:
        """Bytes held while a step runs: weights, the small cache, and what the step takes."""
        work()
        return CONSUMED + self.blocks * BLOCK + self.takes[self.steps[-1].split()[0]]

    def take(self, step: str) -> None:
        """One step."""
        self.steps.append(step)
        if self.fails and step.startswith(self.fails):
            raise torch.OutOfMemoryError("CUDA out of memory")

    def cache(self, config: Any, groups: object, available_memory: int) -> Any:
        """The engine's plan of a KV cache."""
        override = config.cache_config.num_gpu_blocks_override
        return SimpleNamespace(num_blocks=available_memory // BLOCK if override is None else override)

    def begin(self, small: Any, is_profiling: bool) -> None:
        """Allocate the cache."""
        assert is_profiling
        self.blocks = small.num_blocks
        self.steps.append(f"{small.num_blocks} blocks")


def made(
    card: Card, segments_grow: bool | None = True, is_pooling: bool = False, is_last: bool = True, **more: Any
) -> Any:
    """A worker of ours on the card."""
    scheduler = SimpleNamespace(max_num_seqs=1024)
    cache = SimpleNamespace(num_gpu_blocks_override=None, num_gpu_blocks=None, kv_cache_memory_bytes=None)
    config = SimpleNamespace(cache_config=cache, max_concurrent_batches=2)
    runner = SimpleNamespace(
        vllm_config=config, cache_config=cache, num_speculative_steps=4, decode_query_len=5, max_num_tokens=8192,
        max_num_reqs=1024, scheduler_config=scheduler, is_pooling_model=is_pooling, is_last_pp_rank=is_last,
        kv_caches=[], initialize_kv_cache=card.begin, get_kv_cache_spec=dict,
        _dummy_run=lambda tokens, **_: card.take("forward"),
    )  # fmt: skip
    made = object.__new__(worker.ConservativeDryRun)
    fields = {
        "model_config": SimpleNamespace(
            get_vocab_size=lambda: VOCABULARY, head_dtype=SimpleNamespace(itemsize=LOGIT_BYTES)
        ),
        "cache_config": cache, "vllm_config": config, "model_runner": runner, "use_v2_model_runner": True,
        "available_kv_cache_memory_bytes": AVAILABLE, "peak_activation_memory": PROFILED + GRAPHS,
        "total_consumed": CONSUMED, "cudagraph_memory_estimate": GRAPHS,
        "init_snapshot": SimpleNamespace(free_memory=TOTAL), **more,
    }  # fmt: skip
    for name, value in fields.items():
        setattr(made, name, value)
    worker.Worker.determine_available_memory = lambda self: card.room
    worker._warmup_block_counter = lambda runner: lambda tokens, spec: EACH
    worker.get_kv_cache_groups = lambda *_: [SimpleNamespace(kv_cache_spec=None)]
    worker.get_kv_cache_config_from_groups = card.cache
    worker.warmup_kernels = lambda *_: card.take(f"warm-up of {scheduler.max_num_seqs}")
    worker.expandable_segments_enabled = lambda: segments_grow
    worker._teardown_profiling_state = lambda runner: card.take("end")
    worker.set_current_vllm_config = lambda config: nullcontext()
    worker.get_world_group = lambda: SimpleNamespace(world_size=1)
    worker._bytes = lambda caches: card.blocks * BLOCK
    worker._peak, worker._reserved = card.peak, lambda: CONSUMED
    worker._free = lambda: TOTAL - CONSUMED - GIB // 2
    return made


def kept() -> dict[str, object]:
    """A whole batch: what the KV cache does not get, and the steps."""
    card = Card()
    done = made(card)
    given = done.determine_available_memory()
    return {
        "given_gib": given / GIB,
        "reported_gib": done.available_kv_cache_memory_bytes / GIB,
        "profiled_gib": done.peak_activation_memory / GIB,
        "steps": card.steps,
        "requests_after": done.model_runner.scheduler_config.max_num_seqs,
    }


def spare() -> list[float]:
    """What the KV cache gets less where torch's segments do not grow, and where that is unknown."""
    off: tuple[dict[str, Any], ...] = ({"segments_grow": False}, {"segments_grow": None})
    without_logits = ({"segments_grow": False, name: name == "is_pooling"} for name in ("is_pooling", "is_last"))
    with_segments = made(Card()).determine_available_memory()
    return [
        (with_segments - made(Card(), **case).determine_available_memory()) / GIB for case in (*off, *without_logits)
    ]


def short() -> list[str]:
    """Steps where half of the room does not hold the cache of a full batch."""
    card = Card(room=2 * GIB)
    made(card).determine_available_memory()
    return card.steps


def unmeasured() -> list[object]:
    """What the KV cache gets where nothing is measured: its size is given, or the runner is the older one."""
    sized, older = Card(), Card()
    first, second = made(sized), made(older, use_v2_model_runner=False)
    first.cache_config.kv_cache_memory_bytes = 1
    return [*(one.determine_available_memory() / GIB for one in (first, second)), sized.steps, older.steps]


def refused() -> list[object]:
    """The sentence where a full batch does not fit, and the steps: what was made is released."""
    card = Card()
    card.fails = "warm-up"
    try:
        made(card).determine_available_memory()
    except RuntimeError as error:
        return [str(error), card.steps[-1]]
    return []


if __name__ == "__main__":
    found = {"kept": kept(), "spare": spare(), "short": short(), "unmeasured": unmeasured(), "refused": refused()}
    print("RESULT " + json.dumps(found))
